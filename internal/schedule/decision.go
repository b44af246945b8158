package schedule

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// Decision is what follows from the facts.
type Decision struct {
	// Policies are in order of name, one for each policy of the facts.
	Policies []Outcome
	// Admit lists the jobs that have a place in a ledger and no condition Admitted yet. The condition may be written only
	// after the ledger. Those whose entry was in the ledger before are what a crash between the two writes left behind. If
	// such a job must not be admitted any more, it is not listed, and keeps its entry: another operator may be writing its
	// condition at this moment.
	Admit []Admission
	// Wait lists every queued job that is not admitted or must not be, in the order of the queue.
	Wait []Waiting
	// Next is the first time after Facts.Now at which another decision may follow though no other fact changes; zero for never.
	Next time.Time
}

// Outcome is the decision about one policy.
type Outcome struct {
	Name string
	// Ledger is the ledger to write. It differs from the old one by Remove, Replace and Add, in this order.
	Ledger  []Entry
	Remove  []Removal
	Replace []TakeOver
	Add     []Entry
	// Adopted counts the entries in Add whose job was running without one; they do not ask for budget.
	Adopted int
	// Nodes is the size of the pool, Budget what maxUnavailable means for it. Unavailable counts the nodes that use
	// the budget up: admitted, not Ready, cordoned, at work by their own report, or not heard of.
	Nodes, Budget, Unavailable int
	// Held lists the nodes in the ledger that a failed job holds.
	Held []string
	// Queue lists the waiting jobs of the pool's nodes, in order.
	Queue []Waiting
	// Conflict is set when another policy chooses nodes of this one.
	Conflict *Conflict
	// Window is what the windows say.
	Window window.State
	// TooLong is the shortest expected duration of a waiting job that fits into no window; 0 when there is none.
	TooLong time.Duration
	// Rollouts are the updates that the policy follows, in order; to be written with the ledger, as are Resumed, the request to
	// resume that was acted on, and Judged, the uids of the jobs in the ledger whose verdicts are in Rollouts.
	Rollouts []RolloutState
	Resumed  string
	Judged   []string
}

// Changed reports whether the ledger differs from the old one.
func (o Outcome) Changed() bool { return len(o.Remove)+len(o.Replace)+len(o.Add) > 0 }

// Admission is a place in a policy's ledger.
type Admission struct {
	Policy string
	Entry  Entry
	// New says that the entry was not in the ledger before.
	New bool
}

// Why says why an entry leaves a ledger.
type Why string

// The reasons an entry leaves.
const (
	// JobFinished: the job ended and keeps nothing.
	JobFinished Why = "JobFinished"
	// JobGone: the job was deleted, and its node is not at work on it and not held by it.
	JobGone Why = "JobGone"
	// NodeGone: the Node was deleted, and no job is at work there.
	NodeGone Why = "NodeGone"
	// Duplicate: the node stands in another ledger too, and there with more right.
	Duplicate Why = "Duplicate"
)

// Removal is an entry that leaves.
type Removal struct {
	Entry Entry
	Why   Why
}

// TakeOver is an entry that passes from a failed job that holds the node to a newer one.
type TakeOver struct {
	Old, New Entry
}

// Reason says why a job waits. The values are the reasons of the job's Admitted condition.
type Reason string

// The reasons to wait.
const (
	BudgetExhausted Reason = v1alpha1.ReasonBudgetExhausted
	OutsideWindow   Reason = v1alpha1.ReasonOutsideWindow
	Paused          Reason = v1alpha1.ReasonPaused
	Aborted         Reason = v1alpha1.ReasonAborted
	InConflict      Reason = v1alpha1.ReasonConflict
	InvalidSpec     Reason = v1alpha1.ReasonInvalidSpec
	NodeBusy        Reason = v1alpha1.ReasonNodeBusy
	NodeNotReady    Reason = v1alpha1.ReasonNodeNotReady
	NodeMissing     Reason = v1alpha1.ReasonNodeGone
	JobCancelled    Reason = v1alpha1.ReasonCancelled
	Quarantined     Reason = v1alpha1.ReasonQuarantined
	DeviceUnhealthy Reason = v1alpha1.ReasonDeviceUnhealthy
	ImageNotFound   Reason = v1alpha1.ReasonImageNotFound
	// WaitingForWave: the open wave of an update does not include the node, or soaks. WaveEmpty: it chooses none of the nodes that wait,
	// and no node has succeeded yet.
	WaitingForWave Reason = v1alpha1.ReasonWaitingForWave
	WaveEmpty      Reason = v1alpha1.ReasonWaveEmpty
	// RolloutHalted: too many nodes failed with the image.
	RolloutHalted Reason = v1alpha1.ReasonRolloutHalted
)

// Waiting is a job that waits, with the reason and a message for people.
type Waiting struct {
	// Entry is what the ledger would say of it.
	Entry
	// Policy is empty where the node has none, or more than one.
	Policy  string
	Reason  Reason
	Message string
	// ForBudget says that the job waits for nothing but a place in the budget of its policy, and that nodes which are due back have the
	// places.
	ForBudget bool
}

// Conflict names the policies that choose nodes of one policy.
type Conflict struct {
	// With lists the other policies in order of name.
	With []string
	// Nodes counts the nodes concerned; Node is the first of them.
	Nodes int
	Node  string
}

// GoesOn reports whether a job that waits for the reason could go without a person and without a sick node getting well. Only such a
// job takes room in the queue.
func (r Reason) GoesOn() bool {
	switch r {
	case BudgetExhausted, OutsideWindow, Paused, Aborted, WaitingForWave, NodeBusy, InConflict, InvalidSpec:
		return true
	default:
		return false
	}
}
