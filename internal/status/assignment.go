package status

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
)

// AssignmentConditions are the condition types of a NodeDevice that the operator writes. The others are the daemon's.
var AssignmentConditions = []string{v1alpha1.ConditionConflict, v1alpha1.ConditionBlocked}

// Assignment maps the decision about a device to the operator's conditions of the NodeDevice, keeping in old what the
// daemon wrote.
func Assignment(d match.Decision, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	var want []Condition
	if d.Conflict != nil {
		want = append(want, Condition{v1alpha1.ConditionConflict, metav1.ConditionTrue, v1alpha1.ReasonConflict,
			AssignmentConflict(d.Conflict)})
	}
	if b := d.Blocked; b != nil {
		want = append(want, Condition{v1alpha1.ConditionBlocked, metav1.ConditionTrue, b.Reason, blockMessage(*b)})
	}
	return Merge(old, generation, now, AssignmentConditions, want...)
}

// AssignmentConflict says who claims a device, and what to do about it.
func AssignmentConflict(parties []match.Party) string {
	return fmt.Sprintf("Claimed by %s. Nothing changes on the device and nothing is written to it until only one is left: "+
		"narrow a selector, or delete all but one: %s", partyList(parties), edit(parties[0]))
}

func partyList(parties []match.Party) string {
	names := make([]string, 0, len(parties))
	for _, p := range parties {
		names = append(names, p.String())
	}
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("%d more", more))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

func blockMessage(b match.Block) string {
	switch b.Reason {
	case v1alpha1.ReasonSourceNotFound:
		return fmt.Sprintf("FirmwareSource %q does not exist. Create it, or correct sourceRef in %s: %s", b.Source, b.By, edit(b.By))
	case v1alpha1.ReasonSourceNotReady:
		return fmt.Sprintf("FirmwareSource %q is not ready; the update waits for it. To see why: kubectl describe firmwaresource %s",
			b.Source, b.Source)
	case v1alpha1.ReasonImageNotFound:
		return fmt.Sprintf("FirmwareSource %q holds no image of version %s for this device (%s). Exclude the device from %s, or add an image: %s",
			b.Source, b.Version, hardware(b), b.By, wayout.Edit("fws", b.Source))
	case v1alpha1.ReasonImageAmbiguous:
		return fmt.Sprintf("FirmwareSource %q holds different images of version %s for this device (%s). Give each image its models or boardIDs: %s",
			b.Source, b.Version, hardware(b), wayout.Edit("fws", b.Source))
	case v1alpha1.ReasonNoMatch:
		return fmt.Sprintf("The %s matches no device, and may be meant for this one: no template assigns or flashes anything here until it matches, "+
			"or is removed. The condition PinsUnmatched says in what it differs. To correct it: %s", b.By, edit(b.By))
	case v1alpha1.ReasonPaused:
		return fmt.Sprintf("The assignment has no image yet and FirmwareTemplate %q is paused. To continue: %s", b.By.Name,
			wayout.State("fwt", b.By.Name, v1alpha1.TemplateActive))
	case v1alpha1.ReasonInvalidSpec:
		if b.Message != "" { // of the source
			return sentence(b.Message) + " To correct it: " + wayout.Edit("fws", b.Source)
		}
		return fmt.Sprintf("The assignment has no image yet and FirmwareTemplate %q is invalid. To correct it: %s", b.By.Name, edit(b.By))
	case v1alpha1.ReasonReadFailed:
		return "The device could not be read in the last scan, so no image is chosen for it. Every scan tries again."
	case v1alpha1.ReasonDowngradeForbidden, v1alpha1.ReasonNotUpdatable, v1alpha1.ReasonPowerCycleRequired:
		return fmt.Sprintf("%s To change or narrow %s: %s", sentence(b.Message), b.By, edit(b.By))
	case v1alpha1.ReasonParameterInvalid:
		return fmt.Sprintf("The device does not take the settings of %s; its condition Ready says why. To correct them: %s", b.By, edit(b.By))
	case v1alpha1.ReasonPathBlocked:
		return sentence(b.Message) + " To declare a path: " + wayout.Edit("fws", b.Source)
	}
	return sentence(b.Message)
}

// edit corrects what a rule or pin is in.
func edit(p match.Party) string {
	if p.Kind == v1alpha1.OriginPin {
		return wayout.Edit("nfw", p.Name)
	}
	return wayout.Edit(short(p.Kind), p.Name)
}

func hardware(b match.Block) string {
	out := []string{"class " + string(b.Class)}
	if b.Model != "" {
		out = append(out, "model "+b.Model)
	}
	if b.BoardID == "" {
		return strings.Join(append(out, "board id unknown"), ", ")
	}
	return strings.Join(append(out, "board id "+b.BoardID), ", ")
}
