package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// TemplateConditions are the condition types of a FirmwareTemplate or ConfigurationTemplate, all written by the operator.
var TemplateConditions = []string{
	v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionConflict,
}

// Template maps the tally of a template to its conditions. The template is Ready when a device matches and every
// one that it assigns something to has it and is judged, or when it is paused; Reconciling while a device can still get there without a
// person, be it one that does not exist yet; Stalled when nothing continues until a person acts.
func Template(name string, t match.Tally, old []metav1.Condition, now time.Time) []metav1.Condition {
	want := templateReady(name, t)
	if t.Conflicting > 0 {
		want = append(want, Condition{v1alpha1.ConditionConflict, metav1.ConditionTrue, v1alpha1.ReasonConflict, templateConflict(t)})
	}
	return Merge(old, t.Generation, now, TemplateConditions, want...)
}

func templateReady(name string, t match.Tally) []Condition {
	trouble, reason := templateTrouble(t)
	switch {
	case t.Invalid != "":
		return stalled(v1alpha1.ReasonInvalidSpec,
			t.Invalid+". Until the field is corrected the template assigns nothing new and withdraws nothing: "+wayout.Edit(short(t.Kind), name))
	case t.Updating+t.Pending > 0:
		progress := fmt.Sprintf("%s, %s.", applied(t), text.Quantity(int(t.Updating+t.Pending), "device is in progress", "devices are in progress"))
		return reconciling(v1alpha1.ReasonProgressing, joined(progress, trouble))
	case t.Waiting > 0:
		return reconciling(v1alpha1.ReasonSourceNotReady, joined(applied(t)+".", trouble))
	case trouble != "":
		return stalled(reason, joined(applied(t)+".", trouble))
	case t.Paused:
		return ready(v1alpha1.ReasonPaused, fmt.Sprintf(
			"Paused: %s, and %s. To continue: %s", applied(t),
			text.Quantity(int(t.Unassigned), "matching device is not assigned", "matching devices are not assigned"),
			wayout.State(short(t.Kind), name, v1alpha1.TemplateActive)))
	case t.Matched == 0:
		return reconciling(v1alpha1.ReasonNoMatch, noMatch(t)+"  To correct the template: "+wayout.Edit(short(t.Kind), name))
	}
	if pinned := t.Matched - t.Applied - t.NotApplied; pinned > 0 {
		return ready(v1alpha1.ReasonSucceeded, joined(fmt.Sprintf("%s; pins override it on %s.", applied(t),
			text.Quantity(int(pinned), "matching device", "matching devices")), unlike(t)))
	}
	return ready(v1alpha1.ReasonSucceeded, joined(applied(t)+".", unlike(t)))
}

// namedDifferences and lengthOfValue bound in what a message says that two nodes differ.
const namedDifferences, lengthOfValue = 3, 128

// unlike says which nodes are not like most of their machine model, and in what; empty where all are.
func unlike(t match.Tally) string {
	if t.NodesUnlike == 0 {
		return ""
	}
	out := []string{text.Quantity(int(t.NodesUnlike), "node differs from most of its machine model.", "nodes differ from most of their machine model.")}
	for _, u := range t.Unlike {
		who := u.Node + " differs"
		if u.Nodes > 1 {
			who = fmt.Sprintf("%s and %d more like it differ", u.Node, u.Nodes-1)
		}
		var in []string
		for _, d := range u.Differs[:min(len(u.Differs), namedDifferences)] {
			in = append(in, fmt.Sprintf("%s (%s, not %s)", d.What,
				text.Clip(cmp.Or(d.Has, "none"), lengthOfValue), text.Clip(cmp.Or(d.Other, "none"), lengthOfValue)))
		}
		if more := len(u.Differs) - len(in); more > 0 {
			in = append(in, fmt.Sprintf("%d more", more))
		}
		if len(in) > 0 {
			who += " from " + u.Like + " in " + strings.Join(in, ", ")
		}
		out = append(out, who+".")
	}
	return strings.Join(out, " ")
}

// noMatch says what was looked for and what came nearest.
func noMatch(t match.Tally) string {
	if t.Nodes == 0 {
		return "No node is selected: none has the labels of nodeSelector and the vendor and model of machine. " +
			"To compare: kubectl get nodefirmwares -o custom-columns=NAME:.metadata.name,VENDOR:.status.machine.vendor,MODEL:.status.machine.model; kubectl get nodes --show-labels"
	}
	chosen := text.Quantity(int(t.Nodes), "selected node", "selected nodes")
	if t.Nearest == nil {
		return fmt.Sprintf("No device on %s matches, and none has a class that a rule names. To list the devices: kubectl get nodedevices -o wide", chosen)
	}
	return fmt.Sprintf("No device on %s matches. Rule %q is closest to device %s, but differs in %s. "+
		"Correct the selector, or wait for the devices. To compare: kubectl get nodedevices -o wide",
		chosen, t.Nearest.Rule, t.Nearest.Device, differences(t.Nearest))
}

func differences(n *match.Near) string {
	var out []string
	for _, d := range n.Differs {
		has := d.Has
		has = cmp.Or(has, "no value")
		out = append(out, fmt.Sprintf("%s (the device reports %s)", d.Field, has))
	}
	return strings.Join(out, ", ")
}

func applied(t match.Tally) string {
	are := "run the desired firmware"
	if t.Kind == v1alpha1.OriginConfiguration {
		are = "have the desired settings"
	}
	return fmt.Sprintf("%d of %s %s", t.Applied, text.Quantity(int(t.Applied+t.NotApplied-t.Withheld), "assigned device", "assigned devices"), are)
}

func joined(sentences ...string) string {
	return strings.TrimSpace(strings.Join(sentences, " "))
}

// templateTrouble lists what does not continue without a person, most important first, and the reason of the first.
func templateTrouble(t match.Tally) (message, reason string) {
	var all []string
	add := func(r, s string) {
		reason = cmp.Or(reason, r)
		all = append(all, s)
	}
	if t.Conflicting > 0 {
		add(v1alpha1.ReasonConflict, templateConflict(t))
	}
	if t.Failed > 0 {
		add(v1alpha1.ReasonUpdateFailed, fmt.Sprintf("%s (first: %s) and is not retried automatically; to try again: %s ",
			failures(t), t.Failures[0].Device, wayout.Retry(t.Failures[0].Node)))
	}
	if t.Restored > 0 {
		add(v1alpha1.ReasonRestored, fmt.Sprintf("%s (first: %s), which stays until another version is desired; to update it: %s ",
			text.Quantity(int(t.Restored), "device runs what a person restored", "devices run what a person restored"), t.Restores[0].Device,
			wayout.Retry(t.Restores[0].Node)))
	}
	if t.Blocked > 0 {
		first := t.Blocks[0]
		add(first.Reason, fmt.Sprintf("%s (first: %s): %s",
			text.Quantity(int(t.Blocked), "device is blocked", "devices are blocked"), first.Device, blockMessage(first.Block)))
	}
	if t.Mismatched > 0 {
		add(v1alpha1.ReasonOutOfDate, mismatched(t))
	}
	return strings.Join(all, " "), reason
}

func failures(t match.Tally) string {
	if t.Kind == v1alpha1.OriginConfiguration {
		return text.Quantity(int(t.Failed), "change of settings failed", "changes of settings failed")
	}
	return text.Quantity(int(t.Failed), "update failed", "updates failed")
}

func mismatched(t match.Tally) string {
	if t.Kind == v1alpha1.OriginConfiguration {
		return text.Quantity(int(t.Mismatched), "device has", "devices have") + " other settings; their policy is Validate, so nothing is changed."
	}
	return text.Quantity(int(t.Mismatched), "device runs", "devices run") + " another version; their policy is Validate, so nothing is flashed."
}

// short is the short name of a kind of template.
func short(kind v1alpha1.OriginKind) string {
	if kind == v1alpha1.OriginConfiguration {
		return "fct"
	}
	return "fwt"
}

func templateConflict(t match.Tally) string {
	first := t.Conflicts[0]
	var names []string
	for _, c := range t.Conflicts {
		names = append(names, c.Device)
	}
	return fmt.Sprintf("%s by another rule too (first: %s; %s by %s). Nothing changes there until only one rule is left: narrow a selector, or delete a rule: %s",
		text.Quantity(int(t.Conflicting), "device is claimed", "devices are claimed"), strings.Join(names, ", "), first.Device, partyList(first.Parties), edit(first.Parties[0]))
}
