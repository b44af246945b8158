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
)

// from makes the queued jobs of the facts come from a version each.
func from(f schedule.Facts, versions ...string) schedule.Facts {
	for i, v := range versions {
		f.Jobs[i].Edges[0].From = v
	}
	return f
}

// names lists the nodes that a decision admits in its only policy.
func names(d schedule.Decision) (out []string) {
	for _, e := range d.Policies[0].Add {
		out = append(out, e.Node)
	}
	return out
}

// Canaries that ran another version than the pool are no dead end (R000-53): of those that come from a version that nobody has come
// from, one goes at a time, until one of them has succeeded.
func TestOtherVersionIsOwnCanary(t *testing.T) {
	canary := schedule.Wave{Name: "canary", Selector: labels.SelectorFromSet(labels.Set{"canary": "true"})}
	f := from(spreading(5, 5, schedule.Plan{Waves: []schedule.Wave{canary}}), "2", "1", "1", "1", "2")
	f.Nodes[0].Labels = map[string]string{"canary": "true"}
	d := schedule.Decide(f)
	require.Equal(t, []string{"n0"}, names(d))
	write(&f, d, schedule.Succeeded)
	d = schedule.Decide(f)
	require.Equal(t, []string{"n1", "n4"}, names(d), "one from version 1, and all from version 2, from which the canary came")
	assert.Contains(t, d.Wait[0].Message, "from version 1 yet, and the first one is under way")
	write(&f, d, schedule.Succeeded)
	assert.Equal(t, []string{"n2", "n3"}, names(schedule.Decide(f)))
}

// A percentage of a wave is of all nodes that are to get the update, also of those that a full queue refused.
func TestPercentageCountsRefused(t *testing.T) {
	half := intstr.FromString("50%")
	f := spreading(6, 100, schedule.Plan{Waves: []schedule.Wave{{Name: "half", Size: &half}}, Rollouts: []schedule.Rollout{
		{Target: edges[0].Target, Wave: "half", From: []string{"1"}, Succeeded: 4, LastVerdict: epoch},
	}})
	assert.Len(t, names(schedule.Decide(f)), 1, "of ten nodes five are the half")
	f.Nodes, f.Due = nodes(26), map[string][]schedule.Edge{}
	for i := range 26 {
		f.Due[fmt.Sprintf("n%d", i)] = nil
		if i >= 6 {
			f.Due[fmt.Sprintf("n%d", i)] = []schedule.Edge{edges[0]}
		}
	}
	assert.Len(t, names(schedule.Decide(f)), 6, "of thirty nodes fifteen are the half")
	assert.Equal(t, 30, schedule.Decide(f).Policies[0].Rollouts[0].Nodes)
}

// A node that runs with the update is counted once, also while it is not known yet that it needs no other job.
func TestARunningNodeCountsOnce(t *testing.T) {
	f := spreading(3, 3, schedule.Plan{Halt: &schedule.Halt{}})
	f.Jobs[0].State, f.Policies[0].Ledger = schedule.Admitted, []schedule.Entry{entry(f.Jobs[0])}
	f.Due = map[string][]schedule.Edge{"n0": {edges[0]}, "n1": nil, "n2": nil}
	assert.Equal(t, 3, schedule.Decide(f).Policies[0].Rollouts[0].Nodes)
}

// The time of a verdict is rounded up: the API keeps whole seconds, and no soak becomes shorter by that.
func TestNoSoakIsCutShort(t *testing.T) {
	f := spreading(2, 2, schedule.Plan{Halt: &schedule.Halt{}})
	f.Now = epoch.Add(time.Millisecond)
	f.Jobs[0].State, f.Jobs[0].Edges[0].Verdict = schedule.Finished, schedule.Succeeded
	f.Policies[0].Ledger = []schedule.Entry{entry(f.Jobs[0])}
	assert.Equal(t, epoch.Add(time.Second), schedule.Decide(f).Policies[0].Rollouts[0].LastVerdict)
}

// The next wave opens when the soak is over, and no second before.
func TestAWaveSoaksToTheEnd(t *testing.T) {
	one := intstr.FromInt32(1)
	f := spreading(3, 3, schedule.Plan{
		Waves:    []schedule.Wave{{Name: "one", Size: &one, Soak: time.Hour}},
		Rollouts: []schedule.Rollout{{Target: edges[0].Target, Wave: "one", From: []string{"1"}, Succeeded: 1, LastVerdict: epoch}},
	})
	f.Now = epoch.Add(time.Hour - time.Second)
	d := schedule.Decide(f)
	assert.Empty(t, names(d))
	assert.Equal(t, schedule.WaitingForWave, reasons(d)[f.Jobs[0].Name])
	assert.Equal(t, epoch.Add(time.Hour), d.Policies[0].Rollouts[0].Soaks)
	f.Now = epoch.Add(time.Hour)
	assert.Len(t, names(schedule.Decide(f)), 3)
}

// A wave is not left while one of its nodes is about to be queued again, or while nobody knows yet what a node is to get.
func TestAWaveWaitsForARetry(t *testing.T) {
	plan := schedule.Plan{
		Waves:    []schedule.Wave{{Name: "canary", Selector: labels.SelectorFromSet(labels.Set{"canary": "true"})}},
		Rollouts: []schedule.Rollout{{Target: edges[0].Target, Wave: "canary", From: []string{"1"}, Succeeded: 1, LastVerdict: epoch}},
	}
	f := spreading(2, 5, plan)
	f.Nodes = append(f.Nodes, schedule.Node{Name: "c", Ready: true, Labels: map[string]string{"canary": "true"}})
	f.Due = map[string][]schedule.Edge{"n0": nil, "n1": nil, "c": {edges[0]}}
	d := schedule.Decide(f)
	assert.Empty(t, names(d))
	assert.Equal(t, schedule.WaitingForWave, reasons(d)["n0-j0"])
	delete(f.Due, "c")
	assert.Empty(t, names(schedule.Decide(f)), "the planner has not looked at it yet")
	f.Due["c"] = nil
	assert.Len(t, names(schedule.Decide(f)), 2)
}

// A version that is selected again begins with its canary again.
func TestReselectedVersionRestarts(t *testing.T) {
	one := intstr.FromInt32(1)
	newer := schedule.Target{Model: edges[0].Model, Version: "3", Digest: "sha256:c"}
	plan := schedule.Plan{Waves: []schedule.Wave{{Name: "one", Size: &one}}, Rollouts: []schedule.Rollout{
		{Target: edges[0].Target, Wave: schedule.Rest, From: []string{"1", "3"}, Done: 1, Succeeded: 8, LastVerdict: epoch.Add(-48 * time.Hour)},
		{Target: newer, Wave: schedule.Rest, From: []string{"2"}, Done: 1, Succeeded: 8, LastVerdict: epoch.Add(-24 * time.Hour)},
	}}
	f := from(spreading(3, 3, plan), "3", "3", "3")
	assert.Equal(t, []string{"n0"}, names(schedule.Decide(f)))

	f.Policies[0].Plan.Rollouts[1].Wave = "one"
	assert.Len(t, names(schedule.Decide(f)), 3, "the other version never left its canary")
}

// A version on the way to another one is left without being selected again (R000-53): its waves go on.
func TestAHopKeepsItsWaves(t *testing.T) {
	one, ten := intstr.FromInt32(1), intstr.FromInt32(10)
	newer := schedule.Target{Model: edges[0].Model, Version: "3", Digest: "sha256:c"}
	plan := schedule.Plan{Waves: []schedule.Wave{{Name: "one", Size: &one}, {Name: "ten", Size: &ten}}, Rollouts: []schedule.Rollout{
		{Target: edges[0].Target, Wave: "ten", From: []string{"1"}, Done: 1, Succeeded: 9, LastVerdict: epoch.Add(-48 * time.Hour)},
		{Target: newer, Wave: "ten", From: []string{"2"}, Done: 1, Succeeded: 9, LastVerdict: epoch.Add(-24 * time.Hour)},
	}}
	f := from(spreading(3, 3, plan), "1", "1", "1")
	assert.Len(t, names(schedule.Decide(f)), 3)

	f.Jobs[2].Edges[0].From = "3" // a person selected the hop for this node
	assert.Len(t, names(schedule.Decide(f)), 1, "it is selected again")
}

// What is selected again keeps a halt until a person lifts it, and its waves while a node runs with it.
func TestSelectedAgainWhileItRuns(t *testing.T) {
	one := intstr.FromInt32(1)
	newer := schedule.Target{Model: edges[0].Model, Version: "3", Digest: "sha256:c"}
	plan := schedule.Plan{Waves: []schedule.Wave{{Name: "one", Size: &one}}, Rollouts: []schedule.Rollout{
		{Target: edges[0].Target, Wave: schedule.Rest, From: []string{"1", "3"}, Done: 1, Succeeded: 8, LastVerdict: epoch.Add(-48 * time.Hour)},
		{Target: newer, Wave: schedule.Rest, From: []string{"2"}, Done: 1, Succeeded: 8, LastVerdict: epoch.Add(-24 * time.Hour)},
	}}
	f := from(spreading(4, 3, plan), "3", "3", "3", "3")
	f.Policies[0].Plan.Rollouts[0].Halted = &schedule.Halted{Time: epoch, Message: "Job x failed."}
	d := schedule.Decide(f)
	assert.Empty(t, names(d))
	assert.NotNil(t, d.Policies[0].Rollouts[0].Halted)

	f.Policies[0].Plan.Rollouts[0].Halted = nil
	f.Jobs[0].State, f.Policies[0].Ledger = schedule.Admitted, []schedule.Entry{entry(f.Jobs[0])}
	assert.Equal(t, []string{"n1", "n2"}, names(schedule.Decide(f)))
}

// A job takes a held node over because it was made for that, whatever the clock of the API server said when it was made.
func TestRetryIgnoresClock(t *testing.T) {
	for _, age := range []int{1, 5, 9} {
		holds, retry := job("n0", 5, schedule.Held), job("n0", age, schedule.Queued)
		retry.Name, retry.UID = "retry", "retry"
		replaces := func(change func(*schedule.Job)) int {
			retry := retry
			change(&retry)
			f := schedule.Facts{Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(1), entry(holds))}, Nodes: nodes(1), Jobs: []schedule.Job{holds, retry}}
			return len(schedule.Decide(f).Policies[0].Replace)
		}
		assert.Equal(t, 1, replaces(func(j *schedule.Job) { j.Planned, j.Follows = true, holds.Name }))
		assert.Zero(t, replaces(func(j *schedule.Job) { j.Planned = true }), "it was planned before the other one failed, and is withdrawn soon")
		assert.Zero(t, replaces(func(j *schedule.Job) { j.Planned, j.Follows = true, "another" }))
		assert.Equal(t, 1, replaces(func(*schedule.Job) {}), "a person makes one for the node as it is")
	}
}

// A retry that took the place of the held job, and was withdrawn before it was told, does not keep the next retry away.
func TestRetryFollowsAWithdrawnOne(t *testing.T) {
	holds, gone, retry := job("n0", 5, schedule.Held), job("n0", 6, schedule.Queued), job("n0", 7, schedule.Queued)
	retry.Planned, retry.Follows = true, holds.Name
	f := schedule.Facts{Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(1), entry(gone))}, Nodes: nodes(1), Jobs: []schedule.Job{holds, retry}}
	f.Nodes[0].HeldBy = holds.Name
	assert.Equal(t, []schedule.Entry{entry(retry)}, schedule.Decide(f).Policies[0].Ledger)
	f.Jobs[1].Follows = ""
	assert.Equal(t, []schedule.Entry{entry(holds)}, schedule.Decide(f).Policies[0].Ledger, "it was planned before a job held the node")
}

// A failed job that was taken over gets no new place when the ledger is lost, whatever the clock said.
func TestWhatWasTakenOverGetsNoPlace(t *testing.T) {
	for _, age := range []int{1, 9} {
		for name, change := range map[string]func(*schedule.Job){
			"by one that runs":             func(j *schedule.Job) { j.State = schedule.Admitted },
			"by a planned one that runs":   func(j *schedule.Job) { j.State, j.Planned, j.Follows = schedule.Admitted, true, "n0-j5" },
			"by a planned one that failed": func(j *schedule.Job) { j.State, j.Planned, j.Follows = schedule.Held, true, "n0-j5" },
		} {
			held, next := job("n0", 5, schedule.Held), job("n0", age, 0)
			change(&next)
			d := schedule.Decide(schedule.Facts{Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(1))}, Nodes: nodes(1), Jobs: []schedule.Job{held, next}})
			assert.Equal(t, []schedule.Entry{entry(next)}, d.Policies[0].Add, "%s, age %d", name, age)
		}
	}
}

// What the wave waits for is said where one of its nodes is not Ready.
func TestANodeThatHoldsAWaveIsNamed(t *testing.T) {
	canary := schedule.Wave{Name: "canary", Selector: labels.SelectorFromSet(labels.Set{"canary": "true"})}
	f := spreading(2, 2, schedule.Plan{Waves: []schedule.Wave{canary}})
	f.Nodes[1].Labels, f.Nodes[1].Ready = map[string]string{"canary": "true"}, false
	r := schedule.Decide(f).Policies[0].Rollouts[0]
	assert.Contains(t, r.Message, "0 of 1 node judged")
	assert.Contains(t, r.Message, "Node n1 is not Ready")
}

// Where the wave waits for a node that nobody queues a job for, such as one whose daemon is down, that node is named.
func TestAnAbsentNodeIsNamed(t *testing.T) {
	canary := schedule.Wave{Name: "canary", Selector: labels.SelectorFromSet(labels.Set{"canary": "true"})}
	f := spreading(2, 2, schedule.Plan{Waves: []schedule.Wave{canary}})
	for _, name := range []string{"d", "c"} {
		f.Nodes = append(f.Nodes, schedule.Node{Name: name, Ready: true, Labels: map[string]string{"canary": "true"}})
	}
	f.Due = map[string][]schedule.Edge{"n0": nil, "n1": nil, "c": {edges[0]}, "d": {edges[0]}}
	d := schedule.Decide(f)
	assert.Empty(t, names(d))
	const says = "0 of 2 nodes judged"
	assert.Contains(t, d.Policies[0].Rollouts[0].Message, says)
	assert.Contains(t, d.Policies[0].Rollouts[0].Message, "Node c has no job yet")
	assert.Contains(t, d.Wait[0].Message, "Node c has no job yet")

	f.Nodes[1].Labels, f.Nodes[1].Ready = map[string]string{"canary": "true"}, false
	r := schedule.Decide(f).Policies[0].Rollouts[0]
	assert.Contains(t, r.Message, "Node n1 is not Ready")
	assert.NotContains(t, r.Message, "has no job yet", "what a job waits for is known better")
}

// A request that is taken back is remembered: the same text again is no new one.
func TestResumeIsRemembered(t *testing.T) {
	halt := &schedule.Halt{MaxFailures: intstr.FromInt32(1)}
	halted := schedule.Rollout{Target: edges[0].Target, Wave: schedule.Rest, Failed: 1, Consecutive: 2, Halted: &schedule.Halted{Time: epoch, Message: "Job x failed."}}
	f := spreading(2, 1, schedule.Plan{Halt: halt, Resume: "a", Rollouts: []schedule.Rollout{halted}})
	d := schedule.Decide(f)
	require.Len(t, names(d), 1)
	assert.Zero(t, d.Policies[0].Rollouts[0].Failed)
	assert.Zero(t, d.Policies[0].Rollouts[0].Consecutive, "failures count from 0 again")
	f.Policies[0].Plan.Resumed, f.Policies[0].Plan.Resume = d.Policies[0].Resumed, ""
	assert.Equal(t, "a", schedule.Decide(f).Policies[0].Resumed)
	f.Policies[0].Plan.Resume = "a"
	assert.Empty(t, names(schedule.Decide(f)))
	f.Policies[0].Plan.Resume = "b"
	assert.Len(t, names(schedule.Decide(f)), 1)
}

func TestHalts(t *testing.T) {
	held := func(f *schedule.Facts, n int) { // the first n nodes are held by failed jobs
		for i := range n {
			f.Jobs[i].State, f.Jobs[i].Edges[0].Verdict = schedule.Held, schedule.Failed
			f.Policies[0].Ledger = append(f.Policies[0].Ledger, entry(f.Jobs[i]))
		}
	}
	failed := func(f *schedule.Facts, n int) {
		held(f, n)
		for i := range n {
			f.Jobs[i].State = schedule.Finished
		}
	}
	for name, c := range map[string]struct {
		halt   schedule.Halt
		happen func(*schedule.Facts)
		says   string
	}{
		"a held node by default":          {schedule.Halt{}, func(f *schedule.Facts) { held(f, 1) }, "Job n0-j0 failed and held node n0."},
		"as many held nodes as may be":    {schedule.Halt{MaxHeld: 2}, func(f *schedule.Facts) { held(f, 2) }, ""},
		"one more":                        {schedule.Halt{MaxHeld: 2}, func(f *schedule.Facts) { held(f, 3) }, "3 nodes were held, the last by job n0-j0 on node n0; halt.maxHeld is 2."},
		"held nodes are failures as well": {schedule.Halt{MaxHeld: 5, MaxFailures: intstr.FromInt32(2)}, func(f *schedule.Facts) { held(f, 2) }, "2 failures in wave rest"},
		"a percentage is rounded up":      {schedule.Halt{MaxFailures: intstr.FromString("15%")}, func(f *schedule.Facts) { failed(f, 1) }, ""},
		"a percentage of the wave":        {schedule.Halt{MaxFailures: intstr.FromString("15%")}, func(f *schedule.Facts) { failed(f, 2) }, "halt.maxFailures is 15%"},
		"failures in a row":               {schedule.Halt{MaxConsecutive: 3}, func(f *schedule.Facts) { failed(f, 3) }, "3 failures without a success in between"},
		"a row that began before":         {schedule.Halt{MaxConsecutive: 3}, func(f *schedule.Facts) { failed(f, 1); f.Policies[0].Plan.Rollouts[0].Consecutive = 2 }, "halt.maxConsecutiveFailures is 3"},
		"a success ends the row": {schedule.Halt{MaxConsecutive: 3}, func(f *schedule.Facts) {
			failed(f, 2)
			f.Jobs[0].Edges[0].Verdict, f.Policies[0].Plan.Rollouts[0].Consecutive = schedule.Succeeded, 2
		}, ""},
		"lenient once most have succeeded": {schedule.Halt{MaxFailures: intstr.FromInt32(1), LenientAfter: 80}, func(f *schedule.Facts) { failed(f, 1); f.Policies[0].Plan.Rollouts[0].Done = 40 }, ""},
		"but not before":                   {schedule.Halt{MaxFailures: intstr.FromInt32(1), LenientAfter: 81}, func(f *schedule.Facts) { failed(f, 1); f.Policies[0].Plan.Rollouts[0].Done = 40 }, "1 failure in wave rest"},
		"held nodes are never lenient":     {schedule.Halt{LenientAfter: 10}, func(f *schedule.Facts) { held(f, 1); f.Policies[0].Plan.Rollouts[0].Done = 40 }, "held node n0"},
	} {
		t.Run(name, func(t *testing.T) {
			f := spreading(10, 10, schedule.Plan{Halt: &c.halt, Rollouts: []schedule.Rollout{{Target: edges[0].Target, Wave: schedule.Rest}}})
			c.happen(&f)
			r := schedule.Decide(f).Policies[0].Rollouts[0]
			if c.says == "" {
				assert.Nil(t, r.Halted)
				return
			}
			require.NotNil(t, r.Halted)
			assert.Contains(t, r.Halted.Message, c.says)
		})
	}
}

// A halt names the retry as well while a failed job holds a node, and does not speak of it any more when that is over.
func TestAHaltNamesWhatEndsIt(t *testing.T) {
	f := spreading(3, 3, schedule.Plan{Halt: &schedule.Halt{}})
	f.Jobs[1].State, f.Jobs[1].Edges[0].Verdict = schedule.Held, schedule.Failed
	f.Policies[0].Ledger = []schedule.Entry{entry(f.Jobs[1])}
	d := schedule.Decide(f)
	require.Equal(t, schedule.RolloutHalted, d.Wait[0].Reason)
	for _, says := range []string{"Job n1-j1 failed and held node n1.", "To try again on node n1: kubectl patch nfw n1 ", "To go on with the others: kubectl patch rp default "} {
		assert.Contains(t, d.Wait[0].Message, says)
	}
	write(&f, d, schedule.Unknown)
	f.Jobs[1].State = schedule.Finished // a retry succeeded
	d = schedule.Decide(f)
	require.Equal(t, schedule.RolloutHalted, d.Wait[0].Reason)
	assert.NotContains(t, d.Wait[0].Message, "kubectl patch nfw")
	assert.Contains(t, d.Wait[0].Message, "To go on: kubectl patch rp default ")
}

// A job is told the numbers of its wave by its policy alone; any other cause is its own.
func TestOnlyTheWaveMoves(t *testing.T) {
	canary := schedule.Wave{Name: "canary", Selector: labels.SelectorFromSet(labels.Set{"canary": "true"})}
	f := from(spreading(5, 5, schedule.Plan{Waves: []schedule.Wave{canary}}), "1", "1", "1", "1", "1")
	f.Nodes[0].Labels, f.Nodes[1].Labels = map[string]string{"canary": "true"}, map[string]string{"canary": "true"}
	d := schedule.Decide(f)
	require.Equal(t, []string{"n0"}, names(d))
	moves := map[string]bool{}
	for _, w := range d.Wait {
		moves[w.Node] = w.ForWave
	}
	assert.Equal(t, map[string]bool{"n1": false, "n2": true, "n3": true, "n4": true}, moves, "the second canary waits for the first of its version")
	write(&f, d, schedule.Unknown)
	f.Jobs[0].State, f.Jobs[0].Edges[0].Verdict = schedule.Admitted, schedule.OnTrial
	d = schedule.Decide(f)
	require.Len(t, d.Wait, 4)
	for _, w := range d.Wait {
		assert.False(t, w.ForWave, "the doubt is what it waits for")
	}
}

// A wave whose queued jobs are withdrawn has no verdict, and halts nothing: the failure was tolerated.
func TestAWithdrawnWaveDoesNotHalt(t *testing.T) {
	f := spreading(2, 2, schedule.Plan{
		Waves:    []schedule.Wave{{Name: "canary", Selector: labels.SelectorFromSet(labels.Set{"canary": "true"})}},
		Halt:     &schedule.Halt{MaxFailures: intstr.FromInt32(3)},
		Rollouts: []schedule.Rollout{{Target: edges[0].Target, Wave: "canary", Failed: 1, Consecutive: 1, LastVerdict: epoch}},
	})
	assert.Nil(t, schedule.Decide(f).Policies[0].Rollouts[0].Halted)
}

// Of the nodes of the control plane one goes at a time, whatever pools they are in, and none while another one is away.
func TestOneControlPlaneNodeAtATime(t *testing.T) {
	f := schedule.Facts{Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(9)), policy("a", "pool in (a)", intstr.FromInt32(9))}, Nodes: nodes(4)}
	for i, pool := range []string{"a", "b", "b", "b"} {
		f.Nodes[i].Labels = map[string]string{"pool": pool}
		if i < 3 {
			f.Nodes[i].Labels["node-role.kubernetes.io/control-plane"] = ""
		}
		f.Jobs = append(f.Jobs, job(f.Nodes[i].Name, i, schedule.Queued))
	}
	d := schedule.Decide(f)
	assert.Equal(t, map[string]schedule.Reason{"n1-j1": schedule.BudgetExhausted, "n2-j2": schedule.BudgetExhausted}, reasons(d))
	assert.Contains(t, d.Wait[0].Message, "Control plane node n0")
	f.Nodes[2].Ready = false
	assert.Len(t, schedule.Decide(f).Admit, 1, "the worker alone")
}

// Distributions label the nodes of etcd, which has the quorum, each in their way, and a cluster may have several.
func TestEtcdNodesCount(t *testing.T) {
	f := schedule.Facts{Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(9))}, Nodes: nodes(4)}
	for i, role := range []string{"etcd", "master", "control-plane", "worker"} {
		f.Nodes[i].Labels = map[string]string{"node-role.kubernetes.io/" + role: "true"}
		f.Jobs = append(f.Jobs, job(f.Nodes[i].Name, i, schedule.Queued))
	}
	d := schedule.Decide(f)
	assert.Equal(t, map[string]schedule.Reason{"n1-j1": schedule.BudgetExhausted, "n2-j2": schedule.BudgetExhausted}, reasons(d))
	assert.Contains(t, d.Wait[0].Message, "node-role.kubernetes.io/etcd")
	f.Nodes[0].Ready, f.Nodes[2].Ready = false, false
	d = schedule.Decide(f)
	require.Len(t, d.Admit, 1)
	assert.Equal(t, "n3-j3", d.Admit[0].Entry.Job, "with two of three away the worker alone")

	alone := schedule.Facts{Policies: f.Policies, Nodes: nodes(1), Jobs: f.Jobs[:1]}
	alone.Nodes[0].Labels = f.Nodes[0].Labels
	assert.Len(t, schedule.Decide(alone).Admit, 1, "a cluster of one node is not kept for itself")
}

// A held node of the control plane still has its member of etcd, which the reboot of a retry takes away.
func TestARetryKeepsTheQuorumToo(t *testing.T) {
	for name, c := range map[string]struct {
		other          schedule.JobState
		away, selfAway bool
		goes           bool
	}{
		"another one is well":        {other: schedule.Finished, goes: true},
		"another one is not Ready":   {other: schedule.Finished, away: true},
		"another one is held too":    {other: schedule.Held, goes: true},
		"another one is at work":     {other: schedule.Admitted},
		"it is not Ready itself":     {other: schedule.Finished, away: true, selfAway: true, goes: true},
		"nor is one that is at work": {other: schedule.Admitted, away: true, selfAway: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := schedule.Facts{Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(9))}, Nodes: nodes(3)}
			for i := range f.Nodes {
				f.Nodes[i].Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
			}
			f.Nodes[0].Ready, f.Nodes[1].Ready = !c.selfAway, !c.away
			f.Jobs = []schedule.Job{job("n0", 0, schedule.Held), job("n1", 1, c.other), job("n0", 2, schedule.Queued)}
			f.Policies[0].Ledger = []schedule.Entry{entry(f.Jobs[0]), entry(f.Jobs[1])}
			d := schedule.Decide(f)
			assert.Len(t, d.Policies[0].Replace, map[bool]int{true: 1}[c.goes])
			if !c.goes {
				require.Len(t, d.Wait, 1)
				assert.Contains(t, d.Wait[0].Message, "Control plane node n1 is unavailable or has a job")
			}
		})
	}
}

// Whatever takes a node of the control plane away keeps the others: a job that its daemon alone knows, silence, or a job under way on a node
// whose Node was deleted, and also one of which nobody knows what it was.
func TestTheControlPlaneIsKept(t *testing.T) {
	of := map[string]string{"node-role.kubernetes.io/control-plane": ""}
	facts := func() schedule.Facts {
		f := schedule.Facts{Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(9))}, Nodes: nodes(3)}
		for i := range f.Nodes {
			f.Nodes[i].Labels = of
		}
		f.Jobs = []schedule.Job{job("n0", 0, schedule.Admitted), job("n1", 1, schedule.Queued)}
		return f
	}
	deleted := func(f *schedule.Facts) {
		f.Policies[0].Ledger = []schedule.Entry{entry(f.Jobs[0])}
		f.Nodes = f.Nodes[1:]
	}
	for name, c := range map[string]struct {
		happen func(*schedule.Facts)
		goes   bool
	}{
		"a job that is lost":         {func(f *schedule.Facts) { f.Jobs, f.Nodes[0].Runs = f.Jobs[1:], "lost" }, false},
		"held by a job that is lost": {func(f *schedule.Facts) { f.Jobs, f.Nodes[0].HeldBy = f.Jobs[1:], f.Jobs[0].Name }, false},
		"silence":                    {func(f *schedule.Facts) { f.Jobs, f.Nodes[0].Unheard = f.Jobs[1:], true }, false},
		"deleted":                    {func(f *schedule.Facts) { deleted(f); f.Gone = map[string]map[string]string{"n0": of} }, false},
		"deleted and unknown":        {deleted, false},
		"a deleted worker":           {func(f *schedule.Facts) { deleted(f); f.Gone = map[string]map[string]string{"n0": {}} }, true},
		"nothing":                    {func(f *schedule.Facts) { f.Jobs = f.Jobs[1:] }, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts()
			c.happen(&f)
			d := schedule.Decide(f)
			assert.Equal(t, c.goes, len(d.Policies[0].Add) == 1)
			if !c.goes {
				assert.Contains(t, d.Wait[0].Message, "n0")
				assert.Contains(t, d.Wait[0].Message, "node-role.kubernetes.io/control-plane")
			}
		})
	}
}

// A node that is deleted with its job under way stays in its rack.
func TestADeletedNodeStaysInItsRack(t *testing.T) {
	f := schedule.Facts{Nodes: racks("r1", "r1"), Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(9))}}
	f.Policies[0].Topology = []schedule.TopologyBudget{{Key: "rack", MaxUnavailable: intstr.FromInt32(1)}}
	f.Jobs = []schedule.Job{job(f.Nodes[0].Name, 0, schedule.Admitted), job(f.Nodes[1].Name, 1, schedule.Queued)}
	f.Policies[0].Ledger = []schedule.Entry{entry(f.Jobs[0])}
	f.Gone = map[string]map[string]string{f.Nodes[0].Name: f.Nodes[0].Labels}
	f.Nodes = f.Nodes[1:]
	assert.Empty(t, names(schedule.Decide(f)))
	f.Gone[f.Jobs[0].Node] = map[string]string{"rack": "r2"}
	assert.Len(t, names(schedule.Decide(f)), 1)
}

// A node that is cordoned, or not Ready, costs its rack nothing more.
func TestACordonedNodeCostsItsRackNothing(t *testing.T) {
	f := schedule.Facts{Nodes: racks("r1", "r1"), Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(9)), policy("a", "pool in (a)", intstr.FromInt32(9))}}
	f.Policies[1].Topology = []schedule.TopologyBudget{{Key: "rack", MaxUnavailable: intstr.FromInt32(1)}}
	f.Nodes[0].Labels["pool"], f.Nodes[0].Cordoned = "a", true
	f.Jobs = []schedule.Job{job(f.Nodes[0].Name, 0, schedule.Queued)}
	assert.Len(t, schedule.Decide(f).Admit, 1)
}

// A rack that pools share is disturbed once, as far as the policies have a budget for it.
func TestARackOfTwoPools(t *testing.T) {
	f := schedule.Facts{Nodes: racks("r1", "r1", "r1", "r2")}
	for _, name := range []string{"default", "a"} {
		p := policy(name, "pool in ("+name+")", intstr.FromInt32(9))
		p.Topology = []schedule.TopologyBudget{{Key: "rack", MaxUnavailable: intstr.FromInt32(1)}}
		f.Policies = append(f.Policies, p)
	}
	f.Nodes[0].Labels["pool"], f.Nodes[3].Labels["pool"] = "a", "a"
	for i := range f.Nodes {
		f.Jobs = append(f.Jobs, job(f.Nodes[i].Name, i, schedule.Queued))
	}
	d := schedule.Decide(f)
	assert.Equal(t, map[string]schedule.Reason{"n1-j1": schedule.BudgetExhausted, "n2-j2": schedule.BudgetExhausted}, reasons(d))
	f.Policies[0].Topology[0].MaxUnavailable = intstr.FromString("67%")
	assert.Len(t, schedule.Decide(f).Admit, 3, "two of the three nodes of rack r1, of which one is in another pool")
}
