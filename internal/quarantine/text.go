package quarantine

import (
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
)

// Why says in a clause why the image is not flashed.
func Why(q *v1alpha1.FirmwareQuarantine) string {
	r := First(q)
	if r == nil {
		return "a person confirmed FirmwareQuarantine " + q.Name
	}
	cause := ""
	if r.Message != "" {
		cause = ": " + r.Message
	}
	return fmt.Sprintf("in job %s it left a device of model %s or node %s unhealthy%s", r.Job, q.Spec.Model, r.Node, cause)
}

// Lift is the command by which a person lifts the quarantine.
func Lift(q *v1alpha1.FirmwareQuarantine) string {
	lift := set(q, v1alpha1.QuarantineLifted)
	if q.Spec.State == v1alpha1.QuarantineLifted { // this is a lift of what was reported since
		return set(q, v1alpha1.QuarantineActive) + " && " + lift
	}
	return lift
}

func set(q *v1alpha1.FirmwareQuarantine, state v1alpha1.QuarantineState) string {
	return wayout.State("fwq", q.Name, state)
}
