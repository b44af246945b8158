package schedule

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// DefaultPolicy is the name of the policy that takes every node no other one chooses. Its selector is ignored.
const DefaultPolicy = "default"

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
	// Invalid says why the spec cannot be worked with; empty when it can. An invalid policy chooses no node, and the
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
	// Scanned says that the daemon of the node has looked at the machine. It is needed where a job with Steps is queued.
	Scanned bool
	// Runs is the name of the job that the node reports to be at work on, and Held says that it reports that a failed job holds
	// it. Either disturbs the node also where no ledger and no job says so: an API server that was restored from a backup has lost
	// both. They must be read from the API server itself for a node in a ledger with a job that is gone.
	Runs string
	Held bool
	// Lost says that Runs or Held has stood there for longer than a daemon takes to report the end of a job, and that the API has no
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
	State    JobState
	// Expected is how long the job is expected to take, at most 24 hours; 0 when nothing is known.
	Expected time.Duration
	// Steps says that the job runs steps that a person listed, and updates nothing.
	Steps bool
	// Devices are those that the job updates.
	Devices []string
	// Request is the request of a person that the job answers; empty for none.
	Request string
	// Edges are the updates of the job without their devices: each edge once, in order.
	Edges []JobEdge
	// Quarantined is the first update of the job whose image is quarantined for its device; nil when none is.
	Quarantined *QuarantinedUpdate
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

func (j *Job) entry() Entry { return Entry{Node: j.Node, Job: j.Name, UID: j.UID} }

// waiting reports whether the job was not admitted yet.
func (j *Job) waiting() bool { return j.State == Queued || j.State == Cancelled }

// follows reports whether j was created after held, or in the same second, which is as exact as the API is. The clock of the API server
// may be put back, so a waiting job that answers another request follows as well.
func (j *Job) follows(held *Job) bool {
	answers := j.waiting() && j.Request != "" && j.Request != held.Request
	return j.UID != held.UID && (answers || !j.Created.Before(held.Created))
}
