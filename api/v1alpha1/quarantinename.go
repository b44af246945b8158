package v1alpha1

import (
	"regexp"
	"strings"
)

// nameDigits is how many digits of the digest are part of the name of a FirmwareQuarantine.
const nameDigits = 16

// What the API server accepts as digest and as model.
var (
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	modelForm  = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*:[a-z0-9]+(-[a-z0-9]+)*$`)
)

// QuarantineName is the name of the FirmwareQuarantine of an image and a model, the only one that the API server accepts for them.
// It is empty where the digest or the model is none, so that there can be no quarantine.
func QuarantineName(d Digest, model string) string {
	if !digestForm.MatchString(string(d)) || !modelForm.MatchString(model) || len(model) > 2*maxModelPart+1 {
		return ""
	}
	return strings.TrimPrefix(string(d), "sha256:")[:nameDigits] + "." + strings.Replace(model, ":", ".", 1)
}
