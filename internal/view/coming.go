package view

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/forecast"
)

// Coming is what the operator is about to do where every update succeeds.
type Coming struct {
	// Pools are those with a job, by name.
	Pools map[string]*ComingPool `json:"pools"`
	Ends  *metav1.Time           `json:"ends,omitempty"`
	// Rough says that the end of a long rollout was extrapolated.
	Rough bool `json:"rough"`
}

// ComingPool is what is about to be done in a pool.
type ComingPool struct {
	// Jobs are the next ones, and Total counts all that begin without a person. Reboots counts those that reboot their node, or may.
	Jobs    []ComingJob `json:"jobs"`
	Total   int         `json:"total"`
	Reboots int         `json:"reboots"`
	// Starts counts the beginnings in equal parts of the time from the first to the last one.
	From   metav1.Time `json:"from"`
	To     metav1.Time `json:"to"`
	Starts []int       `json:"starts"`
	// Waits counts the jobs of which nobody can tell when they begin, by what they wait for.
	Waits []v1alpha1.WaitingNodes `json:"waits,omitempty"`

	all []*forecast.Job
}

// ComingJob is a job that is about to begin.
type ComingJob struct {
	Node    string          `json:"node"`
	Wave    string          `json:"wave,omitempty"`
	Starts  metav1.Time     `json:"starts"`
	Minutes int             `json:"minutes,omitempty"`
	Impact  forecast.Impact `json:"impact"`
}

// mostComing bounds the jobs that are listed, and parts is how many bars show when all of them begin.
const (
	mostComing = 40
	parts      = 48
)

func comingOf(f *forecast.Forecast) *Coming {
	out := &Coming{Pools: map[string]*ComingPool{}, Rough: f.Cut}
	if !f.Ends.IsZero() {
		ends := metav1.NewTime(f.Ends)
		out.Ends = &ends
	}
	for _, n := range f.Nodes {
		for _, j := range n.Jobs {
			if j.Running {
				continue
			}
			if out.Pools[j.Policy] == nil {
				out.Pools[j.Policy] = &ComingPool{Jobs: []ComingJob{}, Starts: make([]int, parts)}
			}
			p := out.Pools[j.Policy]
			if j.Goes() {
				p.all = append(p.all, j)
			} else {
				p.wait(string(j.Waits))
			}
		}
	}
	for _, p := range out.Pools {
		p.fill()
	}
	return out
}

func (p *ComingPool) wait(reason string) {
	at := slices.IndexFunc(p.Waits, func(w v1alpha1.WaitingNodes) bool { return w.Reason == reason })
	if at < 0 {
		at, p.Waits = len(p.Waits), append(p.Waits, v1alpha1.WaitingNodes{Reason: reason})
	}
	p.Waits[at].Nodes++
}

func (p *ComingPool) fill() {
	if len(p.all) == 0 {
		return
	}
	slices.SortStableFunc(p.all, func(a, b *forecast.Job) int { return a.Starts.Compare(b.Starts) })
	first, last := p.all[0].Starts, p.all[len(p.all)-1].Starts
	p.From, p.To, p.Total = metav1.NewTime(first), metav1.NewTime(last), len(p.all)
	for i, j := range p.all {
		if j.Impact == forecast.Reboots || j.Impact == forecast.MayReboot {
			p.Reboots++
		}
		p.Starts[min(int(int64(j.Starts.Sub(first))*parts/max(int64(last.Sub(first)), 1)), parts-1)]++
		if i < mostComing {
			p.Jobs = append(p.Jobs, ComingJob{j.Node, j.Wave, metav1.NewTime(j.Starts), int(j.Took / time.Minute), j.Impact})
		}
	}
}
