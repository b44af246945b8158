package rollout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/internal/controller/rollout"
	"github.com/nodefirmware/node-firmware-operator/internal/queue"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// full is a pool with a short queue, with the planner and the rollout on it.
type full struct {
	schedule.Facts
	*queue.Queues
	edges map[string]schedule.Edge
	woken []string
	limit int
}

func (f *full) node(name, pool string, ready bool, model string) {
	f.Nodes = append(f.Nodes, schedule.Node{Name: name, Ready: ready, Labels: map[string]string{"pool": pool}})
	f.edges[name] = schedule.EdgeOf(model, "1", "2", "")
	f.Note(name, []schedule.Edge{f.edges[name]})
	f.woken = append(f.woken, name)
}

// plan queues the jobs of those that may be planned. Nodes in conflict belong to no policy with a limit.
func (f *full) plan() {
	woken := f.woken
	f.woken = nil
	for _, name := range woken {
		at := slices.IndexFunc(f.Nodes, func(n schedule.Node) bool { return n.Name == name })
		if f.Nodes[at].Labels["pool"] == "gpu" && !f.Enter("gpu", name, name) {
			continue
		}
		f.Note(name, nil)
		f.Jobs = append(f.Jobs, schedule.Job{Name: name, UID: name, Node: name, Created: f.Now, Edges: []schedule.JobEdge{{Edge: f.edges[name]}}})
	}
}

// pass admits what may go, ends it well, and says how much room there is.
func (f *full) pass() (finished int) {
	f.Facts.Due = f.Queues.Due()
	d := schedule.Decide(f.Facts)
	o := d.Policies[slices.IndexFunc(d.Policies, func(o schedule.Outcome) bool { return o.Name == "gpu" })]
	f.Publish(map[string]queue.Counts{"gpu": rollout.QueueOf(o, f.limit)}, func(string) bool { return true })
	f.Jobs = slices.DeleteFunc(f.Jobs, func(j schedule.Job) bool {
		return slices.ContainsFunc(o.Add, func(e schedule.Entry) bool { return e.UID == j.UID })
	})
	f.Now = f.Now.Add(time.Minute)
	return len(o.Add)
}

func newFull(limit int) *full {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	f := &full{Facts: schedule.Facts{Now: now}, Queues: queue.New(func() time.Time { return now }), edges: map[string]schedule.Edge{}, limit: limit}
	f.OnWake(func(node string) { f.woken = append(f.woken, node) })
	in := func(pools ...string) labels.Selector {
		out, err := labels.Parse("pool in (" + pools[0] + ",both)")
		if err != nil {
			panic(err)
		}
		return out
	}
	halted := &schedule.Halted{Time: now, Message: "Job x failed."}
	f.Policies = []schedule.Policy{
		{Name: "gpu", Selector: in("gpu"), MaxUnavailable: intstr.FromInt32(90), Plan: schedule.Plan{
			Halt: &schedule.Halt{}, Rollouts: []schedule.Rollout{{Target: schedule.EdgeOf("halted", "1", "2", "").Target, Wave: schedule.Rest, Failed: 1, Halted: halted}},
		}},
		{Name: "other", Selector: in("other"), MaxUnavailable: intstr.FromInt32(1)},
	}
	return f
}

// R000-58: of 400 nodes 190 cannot go before a person acts or they are well: their model is halted, they are not Ready, or two policies
// select them. They came first and fill the queue many times. The other 210 are done all the same.
func TestAFullQueueStarvesNobody(t *testing.T) {
	f := newFull(10)
	for i := range 400 {
		name := fmt.Sprintf("n%03d", i)
		switch {
		case i < 90:
			f.node(name, "gpu", true, "halted")
		case i < 160:
			f.node(name, "gpu", false, "good")
		case i < 190:
			f.node(name, "both", true, "good")
		default:
			f.node(name, "gpu", true, "good")
		}
	}
	done := 0
	for round := 0; done < 210; round++ {
		f.plan()
		n := f.pass()
		require.LessOrEqual(t, n, 10, "no more than maxQueued waited")
		done += n
		require.Less(t, round, 60, "%d of 210 nodes are done", done)
	}
	f.plan()
	assert.Zero(t, f.pass())
}

// While the spec of a policy is invalid no job takes room, and none is made.
func TestAnInvalidSpecQueuesNothingMore(t *testing.T) {
	f := newFull(2)
	f.pass()
	for i := range 9 {
		f.node(fmt.Sprint("n", i), "gpu", true, "good")
	}
	f.plan()
	require.Len(t, f.Jobs, 2)
	f.Policies[0].Stopped = "spec.windows: no"
	for range 3 {
		f.pass()
		f.plan()
	}
	assert.Len(t, f.Jobs, 2)
	f.Policies[0].Stopped = ""
	done := 0
	for range 9 {
		done += f.pass()
		f.plan()
	}
	assert.Equal(t, 9, done)
}
