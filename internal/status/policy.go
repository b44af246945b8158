package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// PolicyConditions are the condition types of a RolloutPolicy, all written by the operator.
var PolicyConditions = []string{
	v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionConflict,
	v1alpha1.ConditionComplete,
}

// PolicyFacts is what one pass decided about a RolloutPolicy.
type PolicyFacts struct {
	Name string
	// Outcome of the pass: ledger, queue and counters.
	Outcome schedule.Outcome
	// Refused is how many nodes are not queued because the queue is full.
	Refused int
	// Invalid says why the spec is invalid; empty when it is valid.
	Invalid string
	// Stopped says which part of the spec stops the pool; empty when none does.
	Stopped string
	// Paused and Aborted are the state of the spec.
	Paused, Aborted bool
	// Selects says that the spec chooses nodes by their labels.
	Selects bool
	// MaxUnavailable as the spec gives it.
	MaxUnavailable string
}

// Policy maps the facts of a RolloutPolicy to its conditions. It is Ready when no node of the pool waits or is
// disturbed, or when it is paused; Stalled when nothing goes on until a person acts.
func Policy(f PolicyFacts, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	want := append(policyReady(f), policyComplete(f))
	if f.Outcome.Conflict != nil {
		want = append(want, Condition{v1alpha1.ConditionConflict, metav1.ConditionTrue, v1alpha1.ReasonConflict, policyConflict(f.Name, f.Outcome)})
	}
	return Merge(old, generation, now, PolicyConditions, want...)
}

// heldMeanwhile says how nodes go on that are held while their policy admits nothing.
func heldMeanwhile(policy string, o schedule.Outcome) string {
	return fmt.Sprintf("%s after a failed job: %s. To return it to service as it is: %s  To try again, request a retry, which "+
		"waits until the policy is Active, and continue: %s && %s", text.Quantity(len(o.Held), "node is held", "nodes are held"), heldNodes(o),
		wayout.Request("nfw", o.Held[0], "release"), wayout.Retry(o.Held[0]), wayout.State("rp", policy, v1alpha1.RolloutActive))
}

func policyReady(f PolicyFacts) []Condition {
	o := f.Outcome
	switch {
	case f.Invalid != "":
		return stalled(v1alpha1.ReasonInvalidSpec, f.Invalid+". Until the spec is corrected the policy selects no node, and the policy named default admits no node that it may be meant for: "+
			wayout.Edit("rp", f.Name))
	case f.Stopped != "":
		return stalled(v1alpha1.ReasonInvalidSpec, f.Stopped+". What runs finishes. Until the spec is corrected no job of the pool is admitted: "+wayout.Edit("rp", f.Name))
	case o.Conflict != nil:
		return stalled(v1alpha1.ReasonConflict, policyConflict(f.Name, o))
	case f.Paused && len(o.Held) > 0:
		return stalled(v1alpha1.ReasonPaused, "Paused, and "+heldMeanwhile(f.Name, o))
	case f.Paused && len(o.Queue) == 0 && len(o.Ledger) == 0:
		return ready(v1alpha1.ReasonPaused, "Paused; no node waits. To continue: "+wayout.State("rp", f.Name, v1alpha1.RolloutActive))
	case f.Paused:
		return ready(v1alpha1.ReasonPaused, fmt.Sprintf("Paused: %s, %s. To continue: %s",
			text.Quantity(len(o.Queue), "job waits", "jobs wait"), finishing(o), wayout.State("rp", f.Name, v1alpha1.RolloutActive)))
	case f.Aborted && len(o.Held) > 0:
		return stalled(v1alpha1.ReasonAborted, "Aborted, and "+heldMeanwhile(f.Name, o))
	case f.Aborted:
		return ready(v1alpha1.ReasonAborted, fmt.Sprintf("Aborted: nothing is queued for the pool, %s, %s. To start again: %s",
			text.Quantity(len(o.Queue), "job waits to be withdrawn", "jobs wait to be withdrawn"), finishing(o), wayout.State("rp", f.Name, v1alpha1.RolloutActive)))
	case needsPerson(o) != nil:
		return stalled(string(needsPerson(o).Reason), rolloutMessage(o, *needsPerson(o)))
	case isClosed(o) && o.Window.Opens.IsZero():
		return stalled(v1alpha1.ReasonNeverOpens, fmt.Sprintf("%s Until the windows are changed no job of the pool is admitted. To change them: %s",
			sentence(schedule.Opening(o.Window)), wayout.Edit("rp", f.Name)))
	case o.TooLong > 0:
		return stalled(v1alpha1.ReasonNeverOpens, fmt.Sprintf("A waiting job is expected to take %s, and none of the next windows is that long. "+
			"Lengthen a window, or shorten those with the effect Deny; shorter jobs go on. To change them: %s", o.TooLong, wayout.Edit("rp", f.Name)))
	case f.Selects && o.Nodes == 0 && len(o.Queue) == 0 && len(o.Ledger) == 0:
		return ready(v1alpha1.ReasonNoMatch, "spec.nodeSelector selects no node, so the policy does nothing yet. If nodes should be in it, compare "+
			"their labels: kubectl get nodes --show-labels.")
	case len(o.Queue) == 0 && len(o.Ledger) == 0:
		return ready(v1alpha1.ReasonSucceeded, fmt.Sprintf("No job waits for one of the %s.", text.Quantity(o.Nodes, "node", "nodes")))
	case o.Budget == 0 && len(o.Queue) > 0:
		return stalled(v1alpha1.ReasonBudgetExhausted, fmt.Sprintf("%s, but maxUnavailable %s admits no node. To continue: %s",
			text.Quantity(len(o.Queue), "job waits", "jobs wait"), f.MaxUnavailable, wayout.Set("rp", f.Name, `"maxUnavailable":1`)))
	case len(o.Held) > 0 && len(o.Held) == len(o.Ledger) && (len(o.Queue) == 0 || o.Unavailable >= o.Budget):
		return stalled(v1alpha1.ReasonBudgetExhausted, held(o))
	case isClosed(o) && len(o.Queue) > 0:
		deny := ""
		if o.Window.Denies != "" {
			deny = "window " + o.Window.Denies + " admits no node; "
		}
		return reconciling(v1alpha1.ReasonOutsideWindow, fmt.Sprintf("%s: %s%s. %s.", text.Quantity(len(o.Queue), "job waits", "jobs wait"), deny,
			schedule.Opening(o.Window), finishing(o)))
	case len(o.Ledger) == 0 && soaking(o) != nil:
		return reconciling(v1alpha1.ReasonWaitingForWave, rolloutMessage(o, *soaking(o)))
	case len(o.Ledger) == 0 && o.Unavailable >= o.Budget:
		return reconciling(v1alpha1.ReasonBudgetExhausted, fmt.Sprintf(
			"%s; %s not Ready or cordoned, which uses up the budget of %d. Repair or uncordon, or raise maxUnavailable.",
			text.Quantity(len(o.Queue), "job waits", "jobs wait"), text.Quantity(o.Unavailable, "node is", "nodes are"), o.Budget))
	}
	refused := ""
	if f.Refused > 0 {
		refused = fmt.Sprintf(" %s refused until fewer than maxQueued wait.", text.Quantity(f.Refused, "more node is", "more nodes are"))
	}
	return reconciling(v1alpha1.ReasonProgressing, fmt.Sprintf("%s admitted, %s; %d of %d unavailable.%s%s",
		text.Quantity(len(o.Ledger), "node is", "nodes are"), text.Quantity(len(o.Queue), "job waits", "jobs wait"), o.Unavailable, o.Budget, limits(o), refused))
}

// limits says what keeps the first node that could go though its pool has budget left: its rack, the quorum, that it is not Ready. What waves
// wait for is in status.rollouts.
func limits(o schedule.Outcome) string {
	at := slices.IndexFunc(o.Queue, func(w schedule.Waiting) bool {
		return w.Message != "" && (w.Reason == schedule.BudgetExhausted || w.Reason == schedule.OutsideWindow || w.Reason == schedule.NodeNotReady)
	})
	if at < 0 || o.Unavailable >= o.Budget {
		return ""
	}
	return fmt.Sprintf(" Node %s waits (%s): %s", o.Queue[at].Node, o.Queue[at].Reason, o.Queue[at].Message)
}

// finishing says what the admitted nodes of a pool do that admits no more: those that are held never end by themselves.
func finishing(o schedule.Outcome) string {
	out := text.Quantity(len(o.Ledger)-len(o.Held), "admitted node finishes", "admitted nodes finish")
	if len(o.Held) > 0 {
		out += fmt.Sprintf(", %s: %s", text.Quantity(len(o.Held), "node is held and needs a person", "nodes are held and need a person"),
			strings.Join(o.Held[:min(len(o.Held), maxNamed)], ", "))
	}
	return out
}

// isClosed reports whether the windows keep every job of the pool.
func isClosed(o schedule.Outcome) bool { return !o.Window.Open && !o.Window.Next.IsZero() }

// needsPerson is the update of the pool that needs a person most, or nil: a halted one before one whose wave is empty.
func needsPerson(o schedule.Outcome) *schedule.RolloutState {
	for _, reason := range []schedule.Reason{schedule.RolloutHalted, schedule.WaveEmpty} {
		if r := firstRollout(o, func(r schedule.RolloutState) bool { return r.Reason == reason }); r != nil {
			return r
		}
	}
	return nil
}

// soaking is the first update of the pool whose wave soaks, or nil.
func soaking(o schedule.Outcome) *schedule.RolloutState {
	return firstRollout(o, func(r schedule.RolloutState) bool { return !r.Soaks.IsZero() })
}

func firstRollout(o schedule.Outcome, is func(schedule.RolloutState) bool) *schedule.RolloutState {
	at := slices.IndexFunc(o.Rollouts, func(r schedule.RolloutState) bool { return r.Waiting > 0 && is(r) })
	if at < 0 {
		return nil
	}
	return &o.Rollouts[at]
}

func rolloutMessage(o schedule.Outcome, r schedule.RolloutState) string {
	return fmt.Sprintf("%s, %s. %s", text.Quantity(len(o.Ledger), "node is admitted", "nodes are admitted"),
		text.Quantity(len(o.Queue), "job waits", "jobs wait"), r.Message)
}

// policyComplete is for those who wait for the end of a rollout: a paused policy is as its spec wants it, and not complete while
// jobs wait. Its reason is that of the first node in the queue, while no node is admitted.
func policyComplete(f PolicyFacts) Condition {
	o := f.Outcome
	c := Condition{v1alpha1.ConditionComplete, metav1.ConditionFalse, v1alpha1.ReasonProgressing, ""}
	switch {
	case f.Invalid != "":
		c.Reason, c.Message = v1alpha1.ReasonInvalidSpec, "The policy selects no node while its spec is invalid."
		return c
	case len(o.Queue)+len(o.Ledger) == 0:
		return Condition{c.Type, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "No job waits or is admitted."}
	case len(o.Ledger) == 0 && o.Queue[0].Reason != "":
		c.Reason = string(o.Queue[0].Reason)
	}
	c.Message = fmt.Sprintf("%s admitted, %s.", text.Quantity(len(o.Ledger), "node is", "nodes are"), text.Quantity(len(o.Queue), "job waits", "jobs wait"))
	return c
}

// maxNamed bounds how many objects a message lists.
const maxNamed = 5

func held(o schedule.Outcome) string {
	return fmt.Sprintf("%s after a failed job and %s: %s. To try again: %s. To return it to service as it is: %s",
		text.Quantity(len(o.Held), "node is held", "nodes are held"), text.Quantity(len(o.Queue), "job waits", "jobs wait"), heldNodes(o),
		wayout.Retry(o.Held[0]), wayout.Request("nfw", o.Held[0], "release"))
}

func heldNodes(o schedule.Outcome) string {
	return strings.Join(o.Held[:min(len(o.Held), maxNamed)], ", ")
}

func policyConflict(name string, o schedule.Outcome) string {
	c := o.Conflict
	named := strings.Join(c.With[:min(len(c.With), maxNamed)], ", ")
	return fmt.Sprintf("%s also selected by %s (first: %s), so no job is admitted there. Change a nodeSelector so that only one policy selects them: %s",
		text.Quantity(c.Nodes, "node is", "nodes are"), named, c.Node, wayout.Edit("rp", name))
}

// JobAdmitted is the Admitted condition of a job that has a place in the ledger of a policy. Where its node is the only one of the cluster,
// drained says by whom nodes are drained there, as in config.Operator; it is empty otherwise.
func JobAdmitted(a schedule.Admission, drained string) Condition {
	var pinned string
	if a.PassesWaves {
		pinned = " The job waited for no wave because a pin of the node selects the firmware."
	}
	alone := map[string]string{
		config.MaintenanceDrain: "The firmware-operator drains it and stays on it.",
		config.MaintenanceOperator: "The maintenance-operator drains it. If that evicts itself, nothing says that the node is drained: have the " +
			"firmware-operator drain, which stays on it (--maintenance=Drain).",
	}[drained]
	if alone != "" {
		alone = " It is the only node of the cluster, so what is evicted waits as Pending until it is back. " + alone
	}
	return Condition{v1alpha1.ConditionAdmitted, metav1.ConditionTrue, v1alpha1.ReasonAdmitted, fmt.Sprintf("Rollout policy %s admitted the node.%s%s", a.Policy, pinned, alone)}
}

// JobWaiting is the Admitted condition of a job that waits. One that waits for its wave is told so once, and not each time that
// the waves before it get on: the policy says that with numbers, in one object instead of thousands. Any other cause is told as it is.
func JobWaiting(w schedule.Waiting) Condition {
	if w.ForWave {
		w.Reason = schedule.WaitingForWave
		w.Message = fmt.Sprintf("The open wave does not include node %s yet. What it waits for is in status.rollouts of rolloutpolicy/%s.",
			w.Node, w.Policy)
	}
	return Condition{v1alpha1.ConditionAdmitted, metav1.ConditionFalse, string(w.Reason), text.Clip(w.Message, maxMessage)}
}
