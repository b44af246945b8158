package forecast

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// Impact says how much a node is disturbed.
type Impact string

// The impacts, from the least to the most.
const (
	// InService: nothing takes the node out of service.
	InService Impact = "InService"
	// Drained: the node may be taken out of service, and is not rebooted.
	Drained Impact = "Drained"
	// MayReboot: what the change needs is not known before the node was asked.
	MayReboot Impact = "MayReboot"
	// Reboots: the node is rebooted.
	Reboots Impact = "Reboots"
)

var impacts = []Impact{InService, Drained, MayReboot, Reboots}

// Worse is that of two impacts which disturbs more.
func (i Impact) Worse(o Impact) Impact {
	if slices.Index(impacts, o) > slices.Index(impacts, i) {
		return o
	}
	return i
}

// Unknown is the activation of settings that no daemon has compared yet.
const Unknown = "Unknown"

// Forecast is what the operator is about to do where every update succeeds.
type Forecast struct {
	// Nodes are all nodes in order of name, and Devices all devices in order of node and name.
	Nodes   []*Node
	Devices []*Device
	// Pools are the policies with a job, in order of name.
	Pools []Pool
	// Tallies are those of the templates, by name.
	Tallies map[match.Ref]match.Tally
	// Ends is when the last job has ended; zero where there is none. Cut says that the rest of a long rollout was extrapolated.
	Ends time.Time
	Cut  bool
}

// Begins is when the first job begins; zero where none does.
func (f *Forecast) Begins() (first time.Time) {
	for _, n := range f.Nodes {
		for _, j := range n.Jobs {
			if j.Goes() && (first.IsZero() || j.Starts.Before(first)) {
				first = j.Starts
			}
		}
	}
	return first
}

// Node is what happens to a node.
type Node struct {
	Name string
	// Impact is the worst of its jobs that begin without a person.
	Impact Impact
	// Reboots counts its jobs that reboot it, or may, and begin without a person.
	Reboots int
	Jobs    []*Job
}

// Job is one maintenance of a node.
type Job struct {
	Node string
	// Name is empty for a job that is not there yet.
	Name string
	// Running says that it is admitted already.
	Running bool
	// Activation is the most disruptive one of its devices, or Unknown.
	Activation string
	Impact     Impact
	// Devices are the places of its devices in the forecast.
	Devices []int
	// Policy and Wave that it goes in; empty where there is none, or where it does not go.
	Policy, Wave string
	// Starts is when it is admitted, zero where it never is without a person. Took is how long jobs that did the same took (median); 0 for unknown.
	Starts time.Time
	Took   time.Duration
	// Waits is why it is never admitted, or why it is not admitted now.
	Waits   schedule.Reason
	Message string

	task *v1alpha1.FirmwareJob
	made time.Time
}

// Goes reports whether the job begins without a person.
func (j *Job) Goes() bool { return !j.Starts.IsZero() }

// Device is what happens to a device.
type Device struct {
	Name, Node string
	Class      v1alpha1.DeviceClass
	Model      string
	// Path are the versions from the running one to the last; one where none is flashed.
	Path []string
	// Settings are those that change.
	Settings []Setting
	// Activation is the most disruptive one that it needs; empty where it does not change.
	Activation string
	// By are the rules or the pin that want it, as kind/name/rule.
	By string
	// Assigned says that the cluster wants the change already.
	Assigned bool
	// Reason and Message say why the device stays as it is, or what the change waits for.
	Reason, Message string
	// Jobs are the places in the jobs of its node.
	Jobs []int
}

// Changes reports whether anything is written to the device.
func (d *Device) Changes() bool { return len(d.Jobs) > 0 }

// Setting is one parameter that changes. From is empty where it is not known.
type Setting struct {
	Name string `json:"name"`
	From string `json:"from,omitempty"`
	To   string `json:"to"`
}

// Pool is a policy with a job.
type Pool struct {
	Name  string
	Waves []string
	// Opens is when the next window opens; zero where none is awaited.
	Opens time.Time
}

// Make plays what the operator does with the facts. It takes over the devices and jobs, and changes them.
func Make(f Facts) *Forecast {
	p := newPlay(f)
	for i := range f.Nodes {
		p.node(&f.Nodes[i])
	}
	p.strangers()
	p.rollout()
	for _, n := range p.out.Nodes {
		n.Impact = InService
		for _, j := range n.Jobs {
			if !j.Goes() {
				continue
			}
			n.Impact = n.Impact.Worse(j.Impact)
			if j.Impact == Reboots || j.Impact == MayReboot {
				n.Reboots++
			}
		}
		for _, j := range n.Jobs {
			for _, at := range j.Devices {
				if d := p.out.Devices[at]; !j.Goes() && d.Reason == "" {
					d.Reason, d.Message = string(j.Waits), j.Message
				}
			}
		}
	}
	slices.SortFunc(p.out.Nodes, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(p.out.Pools, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
	for ref := range p.refs {
		if t, is := p.ix.Tally(ref); is {
			p.out.Tallies[ref] = t
		}
	}
	return p.out
}
