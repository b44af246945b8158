package status

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// PinConditions are the condition types of a NodeFirmware that say what becomes of its pins. The operator writes them.
var PinConditions = []string{v1alpha1.ConditionPinsUnmatched}

// Pins brings the condition PinsUnmatched of a NodeFirmware up to date.
func Pins(node string, unmatched []match.UnmatchedPin, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	if len(unmatched) == 0 {
		return Merge(old, generation, now, PinConditions)
	}
	var said []string
	for _, p := range unmatched[:min(len(unmatched), maxNamed)] {
		said = append(said, unmatchedPin(p))
	}
	if more := len(unmatched) - len(said); more > 0 {
		said = append(said, text.Quantity(more, "other pin matches nothing either.", "other pins match nothing either."))
	}
	return Merge(old, generation, now, PinConditions, Condition{
		v1alpha1.ConditionPinsUnmatched, metav1.ConditionTrue, v1alpha1.ReasonNoMatch, fmt.Sprintf(
			"%s Until a pin matches or is removed, templates assign nothing to the devices that it may mean. To compare: kubectl get ndev -o wide "+
				"--field-selector spec.nodeName=%s  To correct it: %s", strings.Join(said, " "), node, wayout.Edit("nfw", node)),
	})
}

func unmatchedPin(p match.UnmatchedPin) string {
	if p.Nearest == nil {
		return fmt.Sprintf("Pin %q matches no device: the node has none of class %s.", p.Name, p.Class)
	}
	return fmt.Sprintf("Pin %q matches no device: %s is closest, but differs in %s.", p.Name, p.Nearest.Device, differences(p.Nearest))
}
