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
	out := fmt.Sprintf("Pin %q matches no device: the node has none of class %s.", p.Name, p.Class)
	if p.Nearest != nil {
		out = fmt.Sprintf("Pin %q matches no device: %s is closest, but differs in %s.", p.Name, p.Nearest.Device, differences(p.Nearest))
	}
	for _, e := range p.Elsewhere {
		out += fmt.Sprintf(" What it names by serial number is in node %s now, as device %s; a pin does not follow it.", e.Node, e.Device)
	}
	return out
}

// PinElsewhere tells a node that a device of it is named by a pin of another node.
func PinElsewhere(pinned, pin string, is match.Place) string {
	return fmt.Sprintf("Device %s, which pin %q of NodeFirmware %s names by its serial number, is in this node now. The pin does not hold here: "+
		"what templates and the pins of this node say does. To move the pin: %s && %s",
		is.Device, pin, pinned, wayout.Edit("nfw", pinned), wayout.Edit("nfw", is.Node))
}
