package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// features of a large fleet.
type features int

const (
	// withWindows gives each policy windows that allow and deny, and a budget for each rack.
	withWindows features = 1 << iota
	// withWaves adds waves and halts to rollouts that are under way: a twentieth of each pool runs a job, each node has finished
	// one before, and a device of every second node waits for an update whose canaries are not done. One policy in ten is
	// halted by a failed job that holds its node, and one in ten has no open window.
	withWaves
	// shut closes the windows of all.
	shut
)

const policiesOfLargeFleet = 50

// largeFleet are the facts of a fleet in the making.
type largeFleet schedule.Facts

// newFleetOf is a fleet of so many nodes, each with a queued job, spread over 50 policies of which each may disturb a tenth of its
// pool.
func newFleetOf(nodes int, has features) schedule.Facts {
	f := &largeFleet{Now: time.Date(2026, 11, 28, 23, 0, 0, 0, time.UTC)}
	for i := range policiesOfLargeFleet {
		p := schedule.Policy{
			Name: fmt.Sprintf("p%02d", i), Selector: labels.SelectorFromSet(labels.Set{"pool": fmt.Sprint(i)}), MaxUnavailable: intstr.FromString("10%"),
		}
		if has&withWindows != 0 {
			day := 6 // which it is in Paris until midnight, and the window lasts longer
			if has&shut != 0 || has&withWaves != 0 && i%10 == 1 {
				day = 3
			}
			p.Calendar, p.Expected = calendarOn(day), 30*time.Minute
			p.Topology = []schedule.TopologyBudget{{Key: "example.com/rack", MaxUnavailable: intstr.FromInt32(2)}}
		}
		if has&withWaves != 0 {
			p.Plan = planUnderWay(f.Now, nodes/policiesOfLargeFleet)
		}
		f.Policies = append(f.Policies, p)
	}
	for i := range nodes {
		f.addNode(i, has)
	}
	return schedule.Facts(*f)
}

func calendarOn(weekday int) *window.Calendar {
	week, err := window.Recurring("week", fmt.Sprintf("0 22 * * %d", weekday), 4*time.Hour, "Europe/Paris")
	if err != nil {
		panic(err)
	}
	monthEnd, err := window.Recurring("month-end", "0 0 31 * *", 96*time.Hour, "Europe/Paris")
	if err != nil {
		panic(err)
	}
	return window.New([]window.Rule{week}, []window.Rule{monthEnd})
}

var (
	nicUpdate  = schedule.Edge{Target: schedule.Target{Model: "15b3:101d", Version: "22.39.2048", Digest: "sha256:a"}, From: "22.31.1014"}
	biosUpdate = schedule.Edge{Target: schedule.Target{Model: "dell-inc:bios", Version: "1.10.1", Digest: "sha256:b"}, From: "1.9.2"}
)

// planUnderWay is one for a pool of so many nodes where the canaries of one update have succeeded, and those of another have not begun.
func planUnderWay(now time.Time, nodes int) schedule.Plan {
	half := intstr.FromString("50%")
	return schedule.Plan{
		Waves: []schedule.Wave{
			{Name: "canaries", Selector: labels.SelectorFromSet(labels.Set{"canary": "true"}), Soak: 30 * time.Minute},
			{Name: "half", Size: &half, Soak: time.Hour},
		},
		Halt: &schedule.Halt{MaxFailures: intstr.FromString("10%")},
		Rollouts: []schedule.Rollout{
			{Target: nicUpdate.Target, Wave: "half", From: []string{nicUpdate.From}, LastVerdict: now.Add(-2 * time.Hour), Done: nodes / 20, Succeeded: nodes / 40},
			{Target: biosUpdate.Target, Wave: "canaries"},
		},
	}
}

// addNode adds the node of that number with its jobs.
func (f *largeFleet) addNode(i int, has features) {
	pool, inPool, name := i%policiesOfLargeFleet, i/policiesOfLargeFleet, fmt.Sprintf("node-%05d", i)
	f.Nodes = append(f.Nodes, schedule.Node{Name: name, Ready: true, Scanned: true, Labels: map[string]string{
		"pool": fmt.Sprint(pool), "canary": fmt.Sprint(inPool%20 == 5), "example.com/rack": fmt.Sprintf("%d-%d", pool, inPool/10), "kubernetes.io/hostname": name,
	}})
	j := schedule.Job{Name: name, UID: name, Node: name, Created: f.Now.Add(time.Duration(i%7-100) * time.Second)}
	if has&withWaves != 0 {
		old := schedule.Job{Name: "old-" + name, UID: "old-" + name, Node: name, Created: f.Now.Add(-24 * time.Hour), State: schedule.Finished}
		f.Jobs = append(f.Jobs, old)
		j.Edges = []schedule.JobEdge{{Edge: nicUpdate}}
		switch {
		case inPool%20 == 0:
			j.State = schedule.Admitted
			if inPool == 0 && pool%10 == 0 {
				j.State, j.Edges[0].Verdict = schedule.Held, schedule.Failed
			}
			f.Policies[pool].Ledger = append(f.Policies[pool].Ledger, entry(j))
		case inPool%2 == 1:
			j.Edges = append(j.Edges, schedule.JobEdge{Edge: biosUpdate})
		}
	}
	f.Jobs = append(f.Jobs, j)
}

// counting is a selector that counts how often it is asked.
type counting struct {
	labels.Selector
	asked *int
}

func (c counting) Matches(l labels.Labels) bool {
	*c.asked++
	return c.Selector.Matches(l)
}

// A pass over ten times the nodes costs ten times the work: it allocates that much more, and asks selectors so often. What it does
// for each held job is in TestAHeldJobIsComparedWithTheJobsOfItsNode.
func TestAPassIsLinearInTheNodes(t *testing.T) {
	for name, has := range map[string]features{"budgets": 0, "windows": withWindows, "waves": withWindows | withWaves, "shut": withWindows | withWaves | shut} {
		t.Run(name, func(t *testing.T) {
			allocated, asked := map[int]float64{}, map[int]float64{}
			for _, nodes := range []int{1_000, 10_000} {
				f := newFleetOf(nodes, has)
				n := 0
				for i := range f.Policies {
					p := &f.Policies[i]
					p.Selector = counting{p.Selector, &n}
					for w := range p.Plan.Waves {
						if s := p.Plan.Waves[w].Selector; s != nil {
							p.Plan.Waves[w].Selector = counting{s, &n}
						}
					}
				}
				require.NotEmpty(t, schedule.Decide(f).Wait)
				asked[nodes] = float64(n)
				allocated[nodes] = testing.AllocsPerRun(1, func() { schedule.Decide(f) })
			}
			assert.LessOrEqual(t, allocated[10_000], 10.5*allocated[1_000])
			assert.LessOrEqual(t, asked[10_000], 10.5*asked[1_000])
			t.Logf("10,000 nodes: %.0f allocations, selectors asked %.0f times", allocated[10_000], asked[10_000])
		})
	}
}
