package schedule

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// Facts is everything that a decision is made from. Ledgers must be read from the API server itself, never from a cache. So
// must each job and node whose absence would remove an entry, and each job on a node that stands in more than one ledger.
type Facts struct {
	// Now is the clock of the operator.
	Now      time.Time
	Policies []Policy
	Nodes    []Node
	Jobs     []Job
	// Gone are the last known labels of the nodes in the ledgers that were deleted, not nil; one that is not listed may be any node.
	Gone map[string]map[string]string
	// OwnNode is the node the operator runs on; its jobs go last. Empty when unknown.
	OwnNode string
	// Due are by node the updates that the node is to get and no queued job of it does yet. A pool opens no further wave while one of its
	// nodes is not listed: nobody knows yet what that one is to get. Nil where nobody keeps account of that.
	Due map[string][]Edge
	// UnheardUntil is when the nodes with Unheard are no longer waited for; it is for people.
	UnheardUntil time.Time
}

// Policy is a rollout policy: its spec and its ledger.
type Policy struct {
	Name string
	// Selector chooses the nodes of the pool. That of an invalid policy chooses the nodes it may be meant for.
	Selector labels.Selector
	// Invalid says why the spec is invalid; empty when it is valid. An invalid policy chooses no node, and the
	// default policy admits none that the invalid one may be meant for.
	Invalid string
	// Paused admits nothing new. Aborted does neither, and whoever queued the jobs withdraws them.
	Paused, Aborted bool
	// MaxUnavailable is a number of nodes, or a percentage of the pool ("10%").
	MaxUnavailable intstr.IntOrString
	// Topology bounds how many nodes of one domain are disturbed at once.
	Topology []TopologyBudget
	// Calendar says when nodes may be admitted; nil is always.
	Calendar *window.Calendar
	// Stopped says why the spec admits nothing; empty when it may. Unlike an invalid policy this one has its pool.
	Stopped string
	// Expected is how long a job is expected to take about which nothing is known, at most 24 hours.
	Expected time.Duration
	// Ledger lists the admitted nodes, oldest first.
	Ledger []Entry
	// Plan is how updates spread over the pool.
	Plan Plan
}

// isDefault reports whether the policy takes every node that no other one chooses. Its selector is ignored then.
func (p *Policy) isDefault() bool { return p.Name == v1alpha1.DefaultRolloutPolicy }

// Entry is the admission of one job on one node.
type Entry struct {
	Node, Job, UID string
}

// Node is a node of the cluster.
type Node struct {
	Name   string
	Labels map[string]string
	// Ready is the node's Ready condition.
	Ready bool
	// Cordoned says that the node is unschedulable, whoever did that. A node that is both cordoned and admitted
	// counts once, so the cordon of the product's own maintenance costs nothing.
	Cordoned bool
	// Taken says in a sentence that somebody else has the node, and what to do; empty where nobody does.
	Taken string
	// Scanned says that the daemon of the node has looked at the machine. It is needed where a job with Steps is queued.
	Scanned bool
	// Runs is the name of the job that the node reports to be at work on, and HeldBy that of the failed job that it reports to be held
	// by. Either disturbs the node also where no ledger and no job says so: an API server that was restored from a backup has lost
	// both. They must be read from the API server itself for a node in a ledger with a job that is gone, and for one
	// that a failed job in no ledger holds.
	Runs, HeldBy string
	// Lost says that Runs or HeldBy has stood there for longer than a daemon takes to report the end of a job, and that the API has no
	// such job. It is for people.
	Lost bool
	// Unheard says that the node may be at work on a job of which the API knows nothing: its daemon has not reported for longer
	// than one that runs ever does, and may be about to.
	Unheard bool
	// Unhealthy are the devices that a job left unhealthy and no request of a person has cleared.
	Unhealthy []UnhealthyDevice
}

// JobState is where a job stands.
type JobState int

// The states. A cancelled job that is not admitted stays queued but is never admitted.
const (
	// Queued jobs are not admitted yet.
	Queued JobState = iota
	// Cancelled jobs are not admitted and never will be.
	Cancelled
	// Admitted jobs may run.
	Admitted
	// Held jobs failed and keep their node in maintenance.
	Held
	// Finished jobs ended and keep nothing.
	Finished
)

// Job is a firmware job that needs admission.
type Job struct {
	Name, UID, Node string
	Created         time.Time
	// Priority orders the queue before the age: higher goes first.
	Priority int
	// Fails is when the first of the devices fails that the job updates, by the limit of a vulnerability of what it runs; zero where none does.
	// Of jobs with the same priority those go first whose devices fail first, and before those whose devices do not; with them go the older
	// jobs of their node.
	Fails time.Time
	State JobState
	// Expected is how long the job is expected to take, at most 24 hours; 0 when nothing is known.
	Expected time.Duration
	// Steps says that the job runs steps that a person listed, or restores firmware, and updates nothing.
	Steps bool
	// Devices are those that the job updates.
	Devices []string
	// Planned says that the planner made the job. It takes a node over from the failed job that Follows names and from no other: what the
	// planner has not withdrawn yet must not end a hold that it was not made for. A job that a person makes takes over any.
	Planned bool
	Follows string
	// gone says that a ledger names the job, and it exists no more.
	gone bool
	// Edges are the updates of the job without their devices: each edge once, in order.
	Edges []JobEdge
	// Quarantined is the first update of the job whose image is quarantined for its device; nil when none is.
	Quarantined *QuarantinedUpdate
	// Slow says that the node of a job that succeeded boots slowly since; empty where it does not, or nobody knows.
	Slow string
	// Unlisted is the first update of the job whose rollback image no source lists for its device; nil when each is listed.
	Unlisted *UnlistedRollback
}

// UnlistedRollback is an update with an image to roll back to that no FirmwareSource lists for the model, the board and the version
// that the device runs.
type UnlistedRollback struct{ Device, Version, Digest string }

// QuarantinedUpdate is an update with an image that must not be flashed to the device.
type QuarantinedUpdate struct {
	// Device is to be updated to Version.
	Device, Version string
	// Why says in a clause why the image is not flashed.
	Why string
	// Lift is the command by which a person lifts the quarantine.
	Lift string
}

// UnhealthyDevice is a device that Job left unhealthy.
type UnhealthyDevice struct{ Name, Job string }

// acquitted reports whether the job holds its node and no image is blamed for that.
func (j *Job) acquitted() bool {
	return j.State == Held && slices.ContainsFunc(j.Edges, func(e JobEdge) bool { return e.Verdict == Acquitted })
}

// isPinned reports whether pins select all that the job updates.
func (j *Job) isPinned() bool {
	return len(j.Edges) > 0 && !slices.ContainsFunc(j.Edges, func(e JobEdge) bool { return !e.Pinned })
}

func (j *Job) entry() Entry { return Entry{Node: j.Node, Job: j.Name, UID: j.UID} }

// waiting reports whether the job was not admitted yet.
func (j *Job) waiting() bool { return j.State == Queued || j.State == Cancelled }

// mayFollow reports whether the waiting job may take over the node that a failed job holds. No times are compared: the clock of the API
// server may be put back.
func (j *Job) mayFollow(held *Job) bool {
	return !j.Planned || j.Follows == held.Name || held.gone && j.Follows != "" // one that took the hold over was withdrawn before it was told
}

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
	// Stopped says that the spec admits nothing before a person corrects it.
	Stopped bool
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
	// PassesWaves says that the policy has waves, and that pins select all that the job updates.
	PassesWaves bool
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
	// WaitingForWave: the open wave of an update does not include the node, or soaks, or the update is in doubt. WaveEmpty: it chooses none of the nodes that wait,
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
	// ForWave says that the message tells how far the open wave is, which changes with each verdict.
	ForWave bool
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
	case BudgetExhausted, OutsideWindow, Paused, Aborted, WaitingForWave, NodeBusy:
		return true
	default:
		return false
	}
}

// node is a Node with what the pass knows of it.
type node struct {
	// Node is zero where the facts have none of that name.
	Node
	// pools are those of the policies that choose the node; more than one are in conflict.
	pools []*pool
	// holders are the entries of the node in the ledgers. Left is the pool whose ledger had one until now, and returned the failed job that
	// gets the place back.
	holders  []holder
	left     *pool
	returned *Job
	// held are the failed jobs that hold the node. If there are any, admitted are they and its other jobs that do not wait.
	held, admitted []*Job
	// first is the job that goes before the others of the node that wait; nil as long as none is known.
	first *Job
	// waitsWith are the rollouts that count the node as one that waits.
	waitsWith []*rollout
}

// holder is an entry in the ledger of a pool.
type holder struct {
	pool  *pool
	entry Entry
}

// node is the one of that name.
func (p *pass) node(name string) *node {
	n := p.nodes[name]
	if n == nil {
		n = &node{}
		p.nodes[name] = n
	}
	return n
}

// atWork reports whether the node reports that a job disturbs it.
func (n *node) atWork() bool { return n.Runs != "" || n.HeldBy != "" }

func (n *node) exists() bool { return n.Name != "" }

func (n *node) hasEntry(j *Job) bool {
	return slices.ContainsFunc(n.holders, func(h holder) bool { return h.entry.UID == j.UID })
}

// followed reports whether another job has already taken over the node that the held job holds. One that runs has: a node has one job at a
// time. One that ended may have been refused before: then the node still reports the held one.
func (n *node) followed(held *Job) bool {
	return held.State == Held && slices.ContainsFunc(n.admitted, func(j *Job) bool {
		isFollower := j.Planned && j.Follows == held.Name && (j.State == Held || n.HeldBy != held.Name)
		return j.UID != held.UID && (j.State == Admitted || isFollower)
	})
}

// isHeldByKnown reports whether the API has the failed job by which the node reports to be held.
func (n *node) isHeldByKnown() bool {
	return slices.ContainsFunc(n.held, func(j *Job) bool { return j.Name == n.HeldBy })
}

// policy is the name of the policy of the node; empty where it has none, or more than one.
func (n *node) policy() string {
	if len(n.pools) != 1 {
		return ""
	}
	return n.pools[0].Name
}
