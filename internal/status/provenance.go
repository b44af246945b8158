package status

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// ProvenanceConditions are the condition types of a NodeFirmware that the operator writes; the others are the daemon's.
var ProvenanceConditions = []string{v1alpha1.ConditionCurrent}

// Provenance brings the condition Current of a NodeFirmware up to date: whether every object that the firmware of its devices
// came from is as it was. Obsolete lists those that are not.
func Provenance(obsolete []v1alpha1.ObsoleteReference, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	if len(obsolete) == 0 {
		return Merge(old, generation, now, ProvenanceConditions, Condition{
			v1alpha1.ConditionCurrent, metav1.ConditionTrue, v1alpha1.ReasonUpToDate,
			"Every object that the firmware of the node's devices came from is unchanged.",
		})
	}
	var named []string
	for _, r := range obsolete[:min(len(obsolete), maxNamed)] {
		named = append(named, reference(r))
	}
	if more := len(obsolete) - len(named); more > 0 {
		named = append(named, quantity(more, "other", "others"))
	}
	return Merge(old, generation, now, ProvenanceConditions, Condition{
		v1alpha1.ConditionCurrent, metav1.ConditionFalse, v1alpha1.ReasonReferencesChanged, fmt.Sprintf(
			"%s that the firmware of the node's devices came from changed since: %s. That alone flashes nothing; if another image is desired now, "+
				"a job follows.", quantity(len(obsolete), "object", "objects"), strings.Join(named, ", ")),
	})
}

func reference(r v1alpha1.ObsoleteReference) string {
	name := string(r.Kind) + " " + r.Name
	switch r.Kind {
	case v1alpha1.OriginPin:
		name = fmt.Sprintf("pin %s of %s", r.Rule, name)
	case v1alpha1.OriginTemplate:
		name = fmt.Sprintf("rule %s of %s", r.Rule, name)
	}
	return fmt.Sprintf("%s (%s)", name, r.Reason)
}
