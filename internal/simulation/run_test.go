package simulation_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/simulation"
)

func fleet(nodes int) []simulation.Node {
	return simulation.Made{Nodes: nodes, Seed: 1, Models: []simulation.Weighted{{Value: "A", Weight: 1}}}.Fleet()
}

func TestARolloutWithoutTroubleTakesAsLongAsTheBudgetAllows(t *testing.T) {
	r := run(t, options(fleet(100), policy("default", "10")))
	p := r.Report.Policies[0]
	assert.Equal(t, simulation.Complete, r.Report.Ending)
	assert.InDelta(t, (200 * time.Minute).Seconds(), p.Makespan, 0, "ten rounds of 20 minutes")
	assert.InDelta(t, p.Makespan, p.LowerBound, 0)
	assert.InDelta(t, 1, p.Ratio, 0)
	assert.Equal(t, 10, p.PeakUnavailable)
	assert.Equal(t, 100, p.Jobs.Succeeded)
}

func TestTheSameSeedGivesTheSameRolloutAndAnotherSeedAnother(t *testing.T) {
	files := func(seed uint64) (report, picture string) {
		o := troubled(options(fleet(200), policy("default", "7")))
		o.Seed = seed
		r := run(t, o)
		text, err := json.Marshal(r.Report)
		require.NoError(t, err)
		var b bytes.Buffer
		require.NoError(t, r.WritePicture(&b))
		return string(text), b.String()
	}
	report, picture := files(1)
	again, drawn := files(1)
	assert.Equal(t, report, again)
	assert.Equal(t, picture, drawn)
	other, _ := files(2)
	assert.NotEqual(t, report, other)
}

// troubled adds all that can go wrong and passes.
func troubled(o simulation.Options) simulation.Options {
	rate := func(r float64) simulation.ByModel[float64] { return simulation.ByModel[float64]{Default: r} }
	o.Work.Spread, o.Work.SlowBoot, o.Work.SlowBootFor = 0.3, 0.05, 10*time.Minute
	o.Work.Failure, o.Work.Held, o.Work.BadImage = rate(0.1), rate(0.02), rate(0.01)
	o.Work.Person, o.Work.Outages, o.Work.OutageFor = 2*time.Hour, 1, time.Hour
	o.Work.Reaction = 20 * time.Second
	return o
}

func TestPassingTroubleStopsNoNode(t *testing.T) {
	for seed := range uint64(5) {
		o := troubled(options(fleet(300), policy("default", "5%")))
		o.Seed = seed
		r := run(t, o)
		p := r.Report.Policies[0]
		require.Equal(t, simulation.Complete, r.Report.Ending)
		assert.Equal(t, 300, p.Jobs.Succeeded)
		assert.Equal(t, p.Jobs.Admitted, p.Jobs.Succeeded+p.Jobs.Failed+p.Jobs.Held+p.Jobs.RolledBack)
		assert.Positive(t, p.Jobs.Failed)
		assert.Positive(t, p.Jobs.Held)
		assert.GreaterOrEqual(t, p.Ratio, 1.0, "no order is faster than the bound")
		assert.Empty(t, p.Waiting)
	}
}

func TestNoMoreNodesAreAdmittedThanTheBudgetAllows(t *testing.T) {
	o := troubled(options(fleet(300), policy("default", "5%")))
	o.Work.Outages = 0 // a node that is not Ready for another reason is unavailable whatever the budget says
	assert.Equal(t, 15, run(t, o).Report.Policies[0].PeakUnavailable)
}

func TestAHeldNodeStopsAPoolOfOneUntilAPersonActs(t *testing.T) {
	o := options(fleet(20), policy("default", "1"))
	o.Work.Held = simulation.ByModel[float64]{Default: 0.3}
	r := run(t, o)
	p := r.Report.Policies[0]
	assert.Equal(t, simulation.Stuck, r.Report.Ending)
	assert.Zero(t, p.Makespan)
	assert.Nil(t, p.Finished)
	assert.Equal(t, 19-p.Done, p.Waiting[schedule.BudgetExhausted].Nodes)
	assert.Contains(t, p.Ready, "1 node is held after a failed job", "the words of the policy itself")

	o.Work.Person = 3 * time.Hour
	r = run(t, o)
	assert.Equal(t, simulation.Complete, r.Report.Ending)
	assert.Positive(t, r.Report.Policies[0].Jobs.Held)
}

func TestBadImageStopsOnlyItsModel(t *testing.T) {
	models := []simulation.Weighted{{Value: "A", Weight: 1}, {Value: "B", Weight: 1}}
	nodes := simulation.Made{Nodes: 60, Seed: 3, Models: models}.Fleet()
	ofB := 0
	for _, n := range nodes {
		if n.Devices[0].Model == "B" {
			ofB++
		}
	}
	o := options(nodes, policy("default", "1"))
	o.Work.BadImage = simulation.ByModel[float64]{Models: map[string]float64{"A": 1}}
	r := run(t, o)
	p := r.Report.Policies[0]
	assert.Equal(t, simulation.Stuck, r.Report.Ending)
	assert.Equal(t, 1, p.Jobs.RolledBack, "the first node is the last one that gets the image")
	assert.Equal(t, ofB, p.Done)
	assert.Equal(t, 60-ofB-1, p.Waiting[schedule.Quarantined].Nodes)
	assert.Contains(t, p.Waiting[schedule.Quarantined].Message, "lift the quarantine")

	o.Work.BadImage.Models["A"], o.Work.Person = 0.2, time.Hour
	assert.Equal(t, simulation.Complete, run(t, o).Report.Ending, "a person lifts it, and the nodes go on")
}

func TestDownNodesUseUpBudget(t *testing.T) {
	nodes := fleet(10)
	nodes[0].Ready, nodes[1].Cordoned = false, true
	r := run(t, options(nodes, policy("default", "2")))
	p := r.Report.Policies[0]
	assert.Equal(t, simulation.Stuck, r.Report.Ending)
	assert.Equal(t, 1, p.Done, "the cordoned node costs no more when it is admitted")
	assert.Equal(t, 1, p.Waiting[schedule.NodeNotReady].Nodes)
	assert.Contains(t, p.Ready, "Repair or uncordon, or raise maxUnavailable")

	nodes[1].Taken = "Node b is cordoned."
	p = run(t, options(nodes, policy("default", "2"))).Report.Policies[0]
	assert.Zero(t, p.Done)
	assert.Equal(t, 2, p.Waiting[schedule.NodeNotReady].Nodes)
}

func TestEachPoolGoesAtItsOwnPace(t *testing.T) {
	nodes := simulation.Made{Nodes: 100, Seed: 1, Labels: map[string][]simulation.Weighted{"pool": {{Value: "gpu", Weight: 1}, {Value: "cpu", Weight: 1}}}}.Fleet()
	gpu, paused := policy("gpu", "50%"), policy("cpu", "1")
	gpu.Spec.NodeSelector = selector("gpu")
	paused.Spec.NodeSelector, paused.Spec.State = selector("cpu"), v1alpha1.RolloutPaused
	r := run(t, options(nodes, gpu, paused))
	require.Len(t, r.Report.Policies, 2, "default chooses no node")
	assert.Equal(t, "cpu", r.Report.Policies[0].Name)
	assert.Zero(t, r.Report.Policies[0].Done)
	assert.Equal(t, r.Report.Policies[0].Nodes, r.Report.Policies[0].Waiting[schedule.Paused].Nodes)
	assert.Equal(t, r.Report.Policies[1].Nodes, r.Report.Policies[1].Done)
	assert.Equal(t, simulation.Stuck, r.Report.Ending)
}

func TestTheHorizonEndsASimulation(t *testing.T) {
	o := options(fleet(100), policy("default", "1"))
	o.Horizon = 5 * time.Hour
	r := run(t, o)
	assert.Equal(t, simulation.Horizon, r.Report.Ending)
	assert.Equal(t, 15, r.Report.Policies[0].Done)

	o.Horizon, o.Work.Duration.Default = 5*time.Hour, 2*time.Hour
	r = run(t, o)
	assert.Equal(t, start.Add(o.Horizon), r.Report.End, "no earlier and no later event is the end")
	assert.Contains(t, summary(r), "After 5 h 0 min, the end of what was simulated, 2 of 100 nodes are done.")

	o.Horizon, o.Policies[0].Spec.Windows = 24*time.Hour, saturdays().Spec.Windows
	r = run(t, o)
	assert.Equal(t, simulation.Horizon, r.Report.Ending)
	assert.Equal(t, start.Add(o.Horizon), r.Report.End)
}

// What happens in one pool does not depend on the others.
func TestPoolsGoAlone(t *testing.T) {
	policies := []v1alpha1.RolloutPolicy{
		windowed("cpu", "5%", "0 20 * * 6", "12h", "Europe/Berlin"), windowed("gpu", "10%", "0 22 * * *", "6h", "Europe/Paris"), policy("storage", "2"),
	}
	policies[2].Spec.NodeSelector, policies[2].Spec.MaxQueued = selector("storage"), ptrTo(int32(7))
	o := troubled(options(threePools(150), policies...))
	o.Work.BadImage.Default = 0 // a quarantine is of all pools
	for i := range o.Fleet {
		o.Fleet[i].Devices[0].Model = o.Fleet[i].Labels["pool"] // how long jobs take is learned of a model, whatever its pool
	}
	all := run(t, o).Report
	require.Len(t, all.Policies, 3)
	for i, p := range policies {
		alone := o
		alone.Policies, alone.Fleet = policies[i:i+1], nil
		for _, n := range o.Fleet {
			if n.Labels["pool"] == p.Name {
				alone.Fleet = append(alone.Fleet, n)
			}
		}
		assert.Equal(t, all.Policies[i], run(t, alone).Report.Policies[0])
	}
}

// While no window is open, nodes that go away and come back ask for no decision. What they use up is seen all the same.
func TestOutagesNeedNoDecision(t *testing.T) {
	o := options(fleet(120), saturdays())
	o.Policies[0].Name = "default"
	o.Work.Outages, o.Work.OutageFor = 60, time.Hour
	r := run(t, o)
	assert.Equal(t, simulation.Complete, r.Report.Ending)
	assert.Less(t, r.Report.Passes, 500, "nodes go and come back six thousand times")
	assert.Greater(t, r.Report.Policies[0].PeakUnavailable, 10)
	assert.Contains(t, picture(t, r), "</i>"+simulation.Down.String()+"</li>")
}

// A budget for each rack and the control plane tie pools together.
func TestTiedPoolsWaitForEachOther(t *testing.T) {
	nodes := threePools(30)
	for i := range nodes {
		nodes[i].Labels["rack"] = "r1"
	}
	cpu, gpu := policy("cpu", "10"), policy("gpu", "10")
	for _, p := range []*v1alpha1.RolloutPolicy{&cpu, &gpu} {
		p.Spec.NodeSelector = selector(p.Name)
		p.Spec.TopologyBudgets = []v1alpha1.TopologyBudget{{TopologyKey: "rack", MaxUnavailable: ptrTo(intstrOne)}}
	}
	r := run(t, options(nodes, cpu, gpu)).Report
	assert.Equal(t, simulation.Complete, r.Ending)
	jobs := r.Policies[0].Nodes + r.Policies[2].Nodes
	assert.GreaterOrEqual(t, r.Makespan, (time.Duration(jobs) * 20 * time.Minute).Seconds(), "one node of the rack at a time, whatever its pool")

	for i := range nodes {
		nodes[i].Labels["node-role.kubernetes.io/control-plane"] = ""
	}
	cpu.Spec.TopologyBudgets, gpu.Spec.TopologyBudgets = nil, nil
	r = run(t, options(nodes, cpu, gpu)).Report
	assert.InDelta(t, (600 * time.Minute).Seconds(), r.Makespan, 0, "one node of the control plane at a time")
}

// The makespan of a rollout is within 5 % of what budgets allow. BenchmarkRollout5000 says so of 5,000 nodes.
func TestMakespanNearLowerBound(t *testing.T) {
	o := options(fleet(1000), policy("default", "2%"))
	o.Work.Spread, o.Work.SlowBoot, o.Work.SlowBootFor = 0.2, 0.01, 20*time.Minute
	o.Work.Failure = simulation.ByModel[float64]{Default: 0.01}
	o.Work.Reaction = 20 * time.Second
	r := run(t, o)
	assert.Equal(t, simulation.Complete, r.Report.Ending)
	assert.GreaterOrEqual(t, r.Report.Ratio, 1.0)
	assert.LessOrEqual(t, r.Report.Ratio, 1.05)
}

func TestJSONReportNamesNumbers(t *testing.T) {
	text, err := json.Marshal(run(t, options(fleet(10), policy("default", "1"))).Report)
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(text, &got))
	for _, key := range []string{"seed", "nodes", "ending", "start", "end", "makespanSeconds", "lowerBoundSeconds", "ratio", "policies"} {
		assert.Contains(t, got, key)
	}
}

func TestRefusesInvalidOptions(t *testing.T) {
	for want, change := range map[string]func(*simulation.Options){
		"there are no nodes to simulate":      func(o *simulation.Options) { o.Fleet = nil },
		"node node-0 is given twice":          func(o *simulation.Options) { o.Fleet[1].Name = "node-0" },
		"a job takes at least 1s":             func(o *simulation.Options) { o.Work.Duration.Default = 0 },
		"failure rate 2: choose 0 to 1":       func(o *simulation.Options) { o.Work.Failure.Default = 2 },
		"choose more than 0 and at most 10":   func(o *simulation.Options) { o.Horizon = 0 },
		"spread 1: choose 0 or more and less": func(o *simulation.Options) { o.Work.Spread = 1 },
	} {
		o := options(fleet(3), policy("default", "1"))
		change(&o)
		_, err := simulation.Run(t.Context(), o)
		assert.ErrorContains(t, err, want)
	}
}
