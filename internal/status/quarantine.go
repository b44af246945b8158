package status

import (
	"fmt"
	"slices"
	"strings"
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
	listed := slices.DeleteFunc(slices.Clone(f.Listed), func(e v1alpha1.QuarantinedImage) bool {
		return e.Scope == v1alpha1.QuarantineLifted || e.Scope == v1alpha1.QuarantineReported
	})
	if len(listed) == 0 {
		return Merge(old, generation, now, owned)
	}
	first := listed[0]
	message := fmt.Sprintf("Version %s on %s", first.Version, first.Model)
	if others := len(listed) + f.More - 1; others > 0 {
		message += fmt.Sprintf(" and %s", quantity(others, "other image or model", "other images or models"))
	}
	message += " made a device or its node unhealthy. " + QuarantineScope(first) + " Look at status.quarantine and its " +
		"jobs, then select another version; or lift the quarantine: " + LiftQuarantine(f.Source)
	if f.More > 0 {
		message += fmt.Sprintf(" %s fit into the list; keep the jobs that report them.",
			quantity(f.More, "more entry does not", "more entries do not"))
	}
	left := 0
	for _, e := range f.Listed {
		left += int(e.ReportsNotListed)
	}
	if left > 0 {
		message += fmt.Sprintf(" %s fit into the list; a lift includes them.", quantity(left, "report does not", "reports do not"))
	}
	return Merge(old, generation, now, owned,
		Condition{v1alpha1.ConditionQuarantined, metav1.ConditionTrue, v1alpha1.ReasonQuarantined, message})
}

// QuarantineScope says in a sentence on which nodes an image is not flashed.
func QuarantineScope(e v1alpha1.QuarantinedImage) string {
	switch e.Scope {
	case v1alpha1.QuarantineReported:
		return "It is not quarantined, because one node that missed its network proves nothing: a second node, or spec.confirmQuarantine, does."
	case v1alpha1.QuarantinePolicies:
		return fmt.Sprintf("It is flashed to no device of that model on nodes of the rollout policy %s; a second node, or spec.confirmQuarantine, "+
			"extends that to all nodes.", strings.Join(e.Policies, ", "))
	case v1alpha1.QuarantineLifted:
		return "A person lifted its quarantine."
	}
	return "It is flashed to no device of that model."
}

// LiftQuarantine is the command that lifts the quarantine of every image of a source.
func LiftQuarantine(source string) string {
	return fmt.Sprintf(`kubectl patch firmwaresource %s --type merge -p `+
		`"{\"spec\":{\"liftQuarantine\":\"$(date -u +%%FT%%TZ)\"}}"`, source)
}
