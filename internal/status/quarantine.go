package status

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// QuarantineFacts is what is quarantined of one FirmwareSource.
type QuarantineFacts struct {
	// Source is its name.
	Source string
	// Listed are the entries in its status; More counts those that do not fit there.
	Listed []v1alpha1.QuarantinedImage
	More   int
}

// Quarantine brings the condition Quarantined of a FirmwareSource up to date. It is there only while an image is
// quarantined.
func Quarantine(f QuarantineFacts, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	owned := []string{v1alpha1.ConditionQuarantined}
	if len(f.Listed) == 0 {
		return Merge(old, generation, now, owned)
	}
	first := f.Listed[0]
	message := fmt.Sprintf("Version %s on %s", first.Version, first.Model)
	if others := len(f.Listed) + f.More - 1; others > 0 {
		message += fmt.Sprintf(" and %s", quantity(others, "other image or model", "other images or models"))
	}
	message += " made a device or its node unhealthy and is flashed to no device of that model. Look at status.quarantine and its " +
		"jobs, then select another version; or lift the quarantine: " + LiftQuarantine(f.Source)
	if f.More > 0 {
		message += fmt.Sprintf(" %s fit into the list; keep the jobs that report them.",
			quantity(f.More, "more entry does not", "more entries do not"))
	}
	return Merge(old, generation, now, owned,
		Condition{v1alpha1.ConditionQuarantined, metav1.ConditionTrue, v1alpha1.ReasonQuarantined, message})
}

// LiftQuarantine is the command that lifts the quarantine of every image of a source.
func LiftQuarantine(source string) string {
	return fmt.Sprintf(`kubectl patch firmwaresource %s --type merge -p `+
		`"{\"spec\":{\"liftQuarantineRequestedAt\":\"$(date -u +%%FT%%TZ)\"}}"`, source)
}
