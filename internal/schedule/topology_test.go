package schedule_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// racks are nodes n0, n1 .. in the given racks; "" has no label.
func racks(names ...string) []schedule.Node {
	out := nodes(len(names))
	for i, name := range names {
		if name != "" {
			out[i].Labels = map[string]string{"rack": name}
		}
	}
	return out
}

func TestTopologyBudgets(t *testing.T) {
	for name, c := range map[string]struct {
		racks    []string
		budget   intstr.IntOrString
		edit     func([]schedule.Node)
		admitted []string
		message  string
	}{
		"one for each rack": {racks: []string{"r1", "r1", "r2"}, budget: intstr.FromInt32(1), admitted: []string{"n0", "n2"},
			message: "1 of 1 in rack r1 by policy default: no more nodes may be disturbed; the job starts as soon as one of them is back."},
		"nodes without the label are one domain": {racks: []string{"", "", "r2"}, budget: intstr.FromInt32(1), admitted: []string{"n0", "n2"},
			message: "1 of 1 in policy default without label rack: no more nodes may be disturbed; the job starts as soon as one of them is back."},
		"a percentage of the domain, rounded down": {racks: []string{"r1", "r1", "r1", "r1", "r1", "r2"}, budget: intstr.FromString("50%"),
			admitted: []string{"n0", "n1", "n5"}},
		"nothing": {racks: []string{"r1", "r2"}, budget: intstr.FromInt32(0), admitted: nil,
			message: "Policy default admits no node because its topology budget for rack is 0."},
		"a node that is not Ready counts in its rack": {racks: []string{"r1", "r1", "r2"}, budget: intstr.FromInt32(1),
			edit: func(n []schedule.Node) { n[0].Ready = false }, admitted: []string{"n2"}},
		"a node that somebody cordoned counts in its rack, and may be admitted itself": {racks: []string{"r1", "r1", "r2"}, budget: intstr.FromInt32(1),
			edit: func(n []schedule.Node) { n[1].Cordoned = true }, admitted: []string{"n1", "n2"}},
		"no more than in the pool as well": {racks: []string{"r1", "r2", "r3", "r4", "r5", "r6", "r7"}, budget: intstr.FromInt32(1),
			admitted: []string{"n0", "n1", "n2", "n3", "n4"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy("default", "", intstr.FromInt32(5))
			p.Topology = []schedule.TopologyBudget{{Key: "rack", MaxUnavailable: c.budget}}
			f := schedule.Facts{Policies: []schedule.Policy{p}, Nodes: racks(c.racks...)}
			if c.edit != nil {
				c.edit(f.Nodes)
			}
			for i := range f.Nodes {
				f.Jobs = append(f.Jobs, job(fmt.Sprintf("n%d", i), i, schedule.Queued))
			}
			d := schedule.Decide(f)
			var got []string
			for _, e := range outcome(t, d, "default").Add {
				got = append(got, e.Node)
			}
			assert.Equal(t, c.admitted, got)
			if c.message != "" {
				assert.Equal(t, schedule.BudgetExhausted, d.Wait[0].Reason)
				assert.Equal(t, c.message, d.Wait[0].Message)
			}
		})
	}
}

func TestAHeldNodeCountsInItsRackAndIsTakenOverThere(t *testing.T) {
	holds, retry, other := job("n0", 1, schedule.Held), job("n0", 3, schedule.Queued), job("n1", 2, schedule.Queued)
	p := policy("default", "", intstr.FromInt32(5), entry(holds))
	p.Topology = []schedule.TopologyBudget{{Key: "rack", MaxUnavailable: intstr.FromInt32(1)}}
	f := schedule.Facts{Policies: []schedule.Policy{p}, Nodes: racks("r1", "r1"), Jobs: []schedule.Job{holds, other, retry}}
	d := schedule.Decide(f)
	assert.Len(t, outcome(t, d, "default").Replace, 1)
	assert.Equal(t, map[string]schedule.Reason{other.Name: schedule.BudgetExhausted}, reasons(d))
}
