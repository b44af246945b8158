package status

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// CleanConditions are the condition types of a NodeFirmware that say how far a node is that is new or out of service. The operator writes them.
var CleanConditions = []string{v1alpha1.ConditionClean}

// CleaningFacts is what is known of a node that is new or out of service.
type CleaningFacts struct {
	Node string
	// When its steps run: because it is new, or because it is out of service.
	When v1alpha1.CleaningTime
	// Waits is what a node that is new waits for before its steps run, or before it is proven; nil for nothing.
	Waits *Condition
	// Proven says that a node that is new waits for nothing, and that its steps succeeded or none are to run.
	Proven bool
	// Policies select the node for that time; of several none runs.
	Policies []string
	// Invalid are the policies for that time of which nobody knows whether they select the node.
	Invalid []string
	// Paused says that the only one is, and Off that it has switched off all its steps.
	Paused, Off bool
	// Unfit says why the only one has no steps for the devices of the node; empty where it has.
	Unfit string
	// HeldBy is the failed job of another kind that holds the node, so that no step begins; empty for none.
	HeldBy string
	// Job runs the steps of the only one; nil before it was made.
	Job *v1alpha1.FirmwareJob
}

// Clean brings the condition Clean of a NodeFirmware up to date; without facts it has none.
func Clean(f *CleaningFacts, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	if f == nil {
		return Merge(old, generation, now, CleanConditions)
	}
	c := f.condition()
	c.Type = v1alpha1.ConditionClean
	return Merge(old, generation, now, CleanConditions, c)
}

// condition speaks of a node that is out of service where nothing runs on it: a new one is then proven.
func (f *CleaningFacts) condition() Condition {
	switch {
	case f.Waits != nil:
		return *f.Waits
	case f.Proven:
		return Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded, Message: f.proven()}
	case len(f.Policies) > 1:
		return Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonConflict, Message: fmt.Sprintf(
			"CleaningPolicies %s select the node for the same time, so none of them runs. Let one of them leave it out: %s",
			strings.Join(f.Policies, " and "), wayout.Edit("clp", f.Policies[0]))}
	case len(f.Policies) == 0 && len(f.Invalid) > 0:
		return Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf(
			"No CleaningPolicy is known to select the node for OutOfService, so it is not cleaned: the nodeSelector of CleaningPolicy %s is invalid. It gets no new work. "+
				"To correct the selector: %s  To return the node: %s", f.Invalid[0], wayout.Edit("clp", f.Invalid[0]), wayout.Serve(f.Node))}
	case len(f.Policies) == 0:
		return Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonNoMatch,
			Message: "No CleaningPolicy selects the node for OutOfService, so it is not cleaned. It gets no new work. To return it: " + wayout.Serve(f.Node)}
	case f.Paused:
		return Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPaused, Message: fmt.Sprintf(
			"CleaningPolicy %s is paused, so the node is not cleaned. It gets no new work. To have it cleaned: %s  To return it: %s",
			f.Policies[0], wayout.State("clp", f.Policies[0], v1alpha1.CleaningActive), wayout.Serve(f.Node))}
	case f.Off:
		return Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPaused, Message: fmt.Sprintf(
			"Every step of CleaningPolicy %s has the priority 0, so the node is not cleaned. It gets no new work. To have one run: %s  To return it: %s",
			f.Policies[0], wayout.Edit("clp", f.Policies[0]), wayout.Serve(f.Node))}
	case f.Unfit != "":
		return Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoMatch, Message: fmt.Sprintf(
			"CleaningPolicy %s is not for the devices of the node, so nothing was erased and no step ran: %s To correct it: %s  To return the node to service as it is: %s",
			f.Policies[0], sentence(f.Unfit), wayout.Edit("clp", f.Policies[0]), wayout.ServeAsItIs(f.Node))}
	case f.HeldBy != "":
		return Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNodeBusy, Message: fmt.Sprintf(
			"The steps of CleaningPolicy %s begin once job %s, which failed, holds the node no more. To release it: %s", f.Policies[0], f.HeldBy, wayout.Request("nfw", f.Node, "release"))}
	case f.Job == nil:
		return Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPending, Message: "The steps of CleaningPolicy " + f.Policies[0] + " are queued."}
	}
	return f.ofJob(f.Job)
}

// proven says of a node that is new why nothing keeps it any longer.
func (f *CleaningFacts) proven() string {
	switch {
	case f.Job != nil:
		return fmt.Sprintf("The node is at its target and healthy, and every step of CleaningPolicy %s succeeded in job %s.", f.Policies[0], f.Job.Name)
	case f.Paused:
		return fmt.Sprintf("The node is at its target and healthy, and CleaningPolicy %s is paused, so its steps did not run.", f.Policies[0])
	case f.Off:
		return fmt.Sprintf("The node is at its target and healthy, and every step of CleaningPolicy %s has the priority 0, so none ran.", f.Policies[0])
	case len(f.Invalid) > 0:
		return fmt.Sprintf("The node is at its target and healthy, and no CleaningPolicy is known to have steps for it: the nodeSelector of CleaningPolicy %s is invalid. "+
			"To correct it: %s", f.Invalid[0], wayout.Edit("clp", f.Invalid[0]))
	}
	return "The node is at its target and healthy, and no CleaningPolicy has steps for it."
}

func (f *CleaningFacts) ofJob(j *v1alpha1.FirmwareJob) Condition {
	policy := f.Policies[0]
	switch {
	case j.Failed():
		failed := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionFailed)
		ways := "To try again: " + wayout.Retry(f.Node)
		if f.When == v1alpha1.CleaningOutOfService {
			ways += "  To return it to service as it is: " + wayout.ServeAsItIs(f.Node)
		}
		return Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonStepFailed, Message: fmt.Sprintf("Job %s of CleaningPolicy %s failed: %s %s",
			j.Name, policy, sentence(text.Clip(said(failed.Message), maxMessage/2)), ways)}
	case j.Ended():
		return Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded, Message: fmt.Sprintf(
			"Every step of CleaningPolicy %s succeeded in job %s. To return the node to service: %s", policy, j.Name, wayout.Serve(f.Node))}
	case j.Status.StartTime != nil:
		return Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing, Message: fmt.Sprintf("Job %s runs the steps of CleaningPolicy %s.", j.Name, policy)}
	}
	return Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPending, Message: fmt.Sprintf(
		"Job %s, which runs the steps of CleaningPolicy %s, waits for its turn. To see for what: kubectl firmware why %[1]s", j.Name, policy)}
}

// said is a message without the ways out that end it.
func said(message string) string {
	out, _ := wayout.Ways(message)
	return out
}

// NewNodeWaits says what a node that is new waits for before its steps run.
func NewNodeWaits(reason, message string) *Condition {
	return &Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// CleaningPolicyConditions are the condition types of a CleaningPolicy.
var CleaningPolicyConditions = []string{v1alpha1.ConditionReady, v1alpha1.ConditionStalled, v1alpha1.ConditionReconciling, v1alpha1.ConditionConflict}

// CleaningPolicyFacts is what is known of a CleaningPolicy.
type CleaningPolicyFacts struct {
	Name   string
	Paused bool
	// Invalid says why the selector is none; empty when it is one.
	Invalid string
	// Node is one that Other selects for the same time; both are empty for none.
	Node, Other string
	Nodes       v1alpha1.CleaningNodes
}

// CleaningPolicy maps the facts of a CleaningPolicy to its conditions.
func CleaningPolicy(f CleaningPolicyFacts, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	var want []Condition
	switch {
	case f.Invalid != "":
		want = stalled(v1alpha1.ReasonInvalidSpec, f.Invalid+". Until the spec is corrected the policy selects no node: "+wayout.Edit("clp", f.Name))
	case f.Other != "":
		message := fmt.Sprintf("CleaningPolicy %s selects node %s for the same time, so on such nodes neither runs. Let one of them leave it out: %s",
			f.Other, f.Node, wayout.Edit("clp", f.Name))
		want = append(stalled(v1alpha1.ReasonConflict, message), Condition{v1alpha1.ConditionConflict, metav1.ConditionTrue, v1alpha1.ReasonConflict, message})
	case f.Paused:
		want = ready(v1alpha1.ReasonPaused, "Paused: no step begins, and no node waits for one. To continue: "+wayout.State("clp", f.Name, v1alpha1.CleaningActive))
	case f.Nodes.Selected == 0:
		want = ready(v1alpha1.ReasonNoMatch, "spec.nodeSelector selects no node, so the policy does nothing yet. To compare labels: kubectl get nodes --show-labels")
	case f.Nodes.Failed > 0:
		want = ready(v1alpha1.ReasonStepFailed, fmt.Sprintf("%s for a person, because a step failed. To see which: kubectl get nfw -o wide",
			text.Quantity(int(f.Nodes.Failed), "node waits", "nodes wait")))
	default:
		want = ready(v1alpha1.ReasonSucceeded, fmt.Sprintf("The policy holds for %s.", text.Quantity(int(f.Nodes.Selected), "node", "nodes")))
	}
	return Merge(old, generation, now, CleaningPolicyConditions, want...)
}
