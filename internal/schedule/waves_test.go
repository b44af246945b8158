package schedule_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// spreading is a pool of n nodes with one queued job each, and what its policy has written.
func spreading(n, budget int, plan schedule.Plan) schedule.Facts {
	f := schedule.Facts{Now: epoch, Policies: []schedule.Policy{policy("default", "", intstr.FromInt(budget))}, Nodes: nodes(n)}
	f.Policies[0].Plan = plan
	for i := range n {
		j := job(fmt.Sprintf("n%d", i), i, schedule.Queued)
		j.Edges = []schedule.JobEdge{{Edge: edges[0]}}
		f.Jobs = append(f.Jobs, j)
	}
	return f
}

// record applies a decision as the API server would.
func record(f *schedule.Facts, d schedule.Decision) {
	p, o := &f.Policies[0], d.Policies[0]
	p.Ledger, p.Plan.Judged, p.Plan.Resumed, p.Plan.Rollouts = o.Ledger, o.Judged, o.Resumed, nil
	for _, r := range o.Rollouts {
		p.Plan.Rollouts = append(p.Plan.Rollouts, r.Rollout)
	}
}

// write records a decision, and ends what it admits with a verdict.
func write(f *schedule.Facts, d schedule.Decision, verdict schedule.Verdict) {
	record(f, d)
	for _, a := range d.Admit {
		for i := range f.Jobs {
			if f.Jobs[i].UID == a.Entry.UID {
				f.Jobs[i].State, f.Jobs[i].Edges[0].Verdict = schedule.Finished, verdict
			}
		}
	}
}

// batches lists how many nodes each wave admits until nothing more happens.
func batches(f schedule.Facts) []int {
	var out []int
	for {
		d := schedule.Decide(f)
		if n := len(d.Policies[0].Add); n > 0 {
			out = append(out, n)
		} else if d.Next.IsZero() && len(d.Policies[0].Remove) == 0 {
			return out
		} else if !d.Next.IsZero() {
			f.Now = d.Next
		}
		write(&f, d, schedule.Succeeded)
	}
}

func TestAPercentageOfAWaveIsOfTheNodesThatHaveTheUpdate(t *testing.T) {
	tenth, half := intstr.FromString("10%"), intstr.FromString("50%")
	plan := schedule.Plan{Waves: []schedule.Wave{{Name: "tenth", Size: &tenth}, {Name: "half", Size: &half}}}
	f := spreading(20, 20, plan)
	f.Nodes = append(f.Nodes, schedule.Node{Name: "other", Ready: true}) // has nothing to update
	assert.Equal(t, []int{1, 1, 8, 10}, batches(f), "the first one alone, because nobody has come from its version yet")
	assert.Equal(t, []int{1, 2}, batches(spreading(3, 3, plan)), "at least one, and half of three is one as well")
}

// Nodes that join after the rollout are spread over the waves that are left.
func TestNodesThatJoinLaterAreSpreadOverWavesToo(t *testing.T) {
	one, three := intstr.FromInt32(1), intstr.FromInt32(3)
	f := spreading(1, 9, schedule.Plan{Waves: []schedule.Wave{{Name: "one", Size: &one}, {Name: "three", Size: &three}}})
	for range 3 {
		write(&f, schedule.Decide(f), schedule.Succeeded)
	}
	more := spreading(9, 9, f.Policies[0].Plan)
	more.Policies, more.Jobs = f.Policies, more.Jobs[1:]
	assert.Equal(t, []int{2, 6}, batches(more))
}

// Edited waves are entered where they are not satisfied yet.
func TestEditedWavesBeginWhereTheyAreNotSatisfied(t *testing.T) {
	one, three, five := intstr.FromInt32(1), intstr.FromInt32(3), intstr.FromInt32(5)
	f := spreading(9, 9, schedule.Plan{Waves: []schedule.Wave{{Name: "a", Size: &one}, {Name: "b", Size: &three}}})
	for range 2 { // the three of a and b
		write(&f, schedule.Decide(f), schedule.Succeeded)
	}
	f.Policies[0].Plan.Waves = []schedule.Wave{{Name: "x", Size: &one}, {Name: "y", Size: &five}}
	assert.Equal(t, []int{2, 4}, batches(f))
}

// Waves that are edited in the middle of an update hold it back at once, also where the name of the open wave stays (R000-53). What was
// satisfied is not waited for again.
func TestEditedWavesGoBack(t *testing.T) {
	one, three, five, six := intstr.FromInt32(1), intstr.FromInt32(3), intstr.FromInt32(5), intstr.FromInt32(6)
	record := func(wave string, succeeded int) []schedule.Rollout {
		return []schedule.Rollout{{Target: edges[0].Target, Wave: wave, From: []string{"1"}, Succeeded: succeeded, LastVerdict: epoch}}
	}
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		waves  []schedule.Wave
		record []schedule.Rollout
		admits int
		open   string
	}{
		"added to none":              {[]schedule.Wave{{Name: "one", Size: &one, Soak: day}, {Name: "five", Size: &five, Soak: day}}, record(schedule.Rest, 2), 3, "five"},
		"put before the open one":    {[]schedule.Wave{{Name: "three", Size: &three, Soak: day}, {Name: "six", Size: &six}}, record("six", 2), 1, "three"},
		"satisfied already":          {[]schedule.Wave{{Name: "one", Size: &one, Soak: day}, {Name: "six", Size: &six}}, record("six", 2), 4, "six"},
		"a shorter soak":             {[]schedule.Wave{{Name: "one", Size: &one, Soak: day}, {Name: "three", Size: &three}}, record("three", 3), 17, schedule.Rest},
		"a selector nobody has left": {[]schedule.Wave{{Name: "canary", Selector: mustSelect("canary"), Soak: day}, {Name: "six", Size: &six}}, record("six", 2), 4, "six"},
	} {
		t.Run(name, func(t *testing.T) {
			f := spreading(20-c.record[0].Succeeded, 100, schedule.Plan{Waves: c.waves, Edited: true, Rollouts: c.record})
			d := schedule.Decide(f)
			assert.Len(t, d.Policies[0].Add, c.admits)
			assert.Equal(t, c.open, d.Policies[0].Rollouts[0].Wave)
			assert.Equal(t, c.record[0].Succeeded, d.Policies[0].Rollouts[0].Done+d.Policies[0].Rollouts[0].Succeeded, "no success is forgotten")
		})
	}
}

// The retry of a held node is not stopped by the halt that the node caused: it disturbs no further node.
func TestTheRetryOfAHeldNodeGoesOnInSpiteOfTheHalt(t *testing.T) {
	f := spreading(2, 2, schedule.Plan{Halt: &schedule.Halt{MaxFailures: intstr.FromInt32(1)}})
	f.Policies[0].Ledger = []schedule.Entry{entry(f.Jobs[0])}
	f.Jobs[0].State, f.Jobs[0].Edges = schedule.Held, []schedule.JobEdge{{Edge: edges[0], Verdict: schedule.Failed}}
	retry := job("n0", 7, schedule.Queued)
	retry.Edges = []schedule.JobEdge{{Edge: edges[0]}}
	f.Jobs = append(f.Jobs, retry)
	d := schedule.Decide(f)
	require.Equal(t, schedule.RolloutHalted, reasons(d)["n1-j1"])
	require.Len(t, d.Policies[0].Replace, 1)
	assert.Equal(t, "n0-j7", d.Policies[0].Replace[0].New.Job)
	assert.Len(t, d.Admit, 1)

	f.Jobs[2].Edges = []schedule.JobEdge{{Edge: schedule.Edge{Target: schedule.Target{Model: edges[0].Model, Version: "3", Digest: "sha256:c"}}}}
	f.Policies[0].Plan.Waves = []schedule.Wave{{Name: "canary", Selector: mustSelect("canary"), Soak: time.Hour}}
	assert.Equal(t, schedule.WaveEmpty, reasons(schedule.Decide(f))["n0-j7"], "another image begins with its own first wave")
}

// A policy follows a bounded number of updates; what is over longest gives way, and one without a place waits and says why.
func TestTheRecordIsBounded(t *testing.T) {
	f := spreading(schedule.MaxRollouts+5, 1000, schedule.Plan{Halt: &schedule.Halt{MaxFailures: intstr.FromInt32(1)}})
	for i := range f.Jobs {
		f.Jobs[i].Edges[0].Edge = model(i)
	}
	for i := range 10 {
		f.Policies[0].Plan.Rollouts = append(f.Policies[0].Plan.Rollouts, schedule.Rollout{
			Target: schedule.Target{Model: "old", Version: fmt.Sprint(i)}, Wave: schedule.Rest, Done: 1, LastVerdict: epoch,
		})
	}
	d := schedule.Decide(f)
	require.Len(t, d.Policies[0].Rollouts, schedule.MaxRollouts)
	require.Len(t, d.Wait, 5)
	assert.Equal(t, schedule.WaitingForWave, d.Wait[0].Reason)
	assert.Contains(t, d.Wait[0].Message, "its maximum")
}

func mustSelect(selector string) labels.Selector {
	s, err := labels.Parse(selector)
	if err != nil {
		panic(err)
	}
	return s
}

// Of two updates, one has left the canaries behind before the other begins. Neither waits for a node that waits for the other.
func TestTwoUpdatesInDifferentWavesDoNotWaitForEachOther(t *testing.T) {
	one := intstr.FromInt32(1)
	canary, other := labels.SelectorFromSet(labels.Set{"w": "a"}), labels.SelectorFromSet(labels.Set{"w": "b"})
	plan := schedule.Plan{
		Waves:    []schedule.Wave{{Name: "canary", Selector: canary, Size: &one}, {Name: "then", Selector: other}},
		Rollouts: []schedule.Rollout{{Target: edges[0].Target, Wave: "canary", Succeeded: 1, LastVerdict: epoch, From: []string{"1"}}},
	}
	f := schedule.Facts{Now: epoch, Policies: []schedule.Policy{policy("default", "", intstr.FromInt(9))}, Nodes: nodes(2)}
	f.Policies[0].Plan = plan
	for i, w := range []string{"a", "b"} {
		f.Nodes[i].Labels = map[string]string{"w": w}
		j := job(f.Nodes[i].Name, i, schedule.Queued)
		j.Edges = []schedule.JobEdge{{Edge: edges[0]}, {Edge: edges[1]}}
		f.Jobs = append(f.Jobs, j)
	}
	d := schedule.Decide(f)
	assert.Len(t, d.Admit, 1, "the canary of the one goes in the second wave of the other")
}

// model is an edge of a model of that number.
func model(i int) schedule.Edge {
	e := edges[0]
	e.Model = fmt.Sprintf("model-%03d", i)
	return e
}

// The canary of an update goes, however many other updates have none that waits.
func TestUpdatesWithoutACanaryLeaveAPlaceToThoseWithOne(t *testing.T) {
	one, n := intstr.FromInt32(1), schedule.MaxRollouts+1
	f := spreading(n, 9, schedule.Plan{Waves: []schedule.Wave{{Name: "canary", Selector: labels.SelectorFromSet(labels.Set{"canary": "true"}), Size: &one}}})
	for i := range n {
		f.Jobs[i].Edges[0].Edge = model(i)
	}
	last := f.Jobs[n-1]
	f.Nodes[n-1].Labels = map[string]string{"canary": "true"}
	d := schedule.Decide(f)
	require.Len(t, d.Admit, 1)
	assert.Equal(t, last.UID, d.Admit[0].Entry.UID)
}

// A failure halts its image also where more updates are under way than a policy remembers.
func TestAFailureHaltsAmongMoreUpdatesThanAreRemembered(t *testing.T) {
	n := schedule.MaxRollouts + 1
	f := spreading(n+1, n+9, schedule.Plan{Halt: &schedule.Halt{MaxFailures: intstr.FromInt32(1)}})
	for i := range n {
		f.Jobs[i].Edges[0].Edge, f.Jobs[i].State = model(i), schedule.Admitted
		f.Policies[0].Ledger = append(f.Policies[0].Ledger, schedule.Entry{Node: f.Jobs[i].Node, Job: f.Jobs[i].Name, UID: f.Jobs[i].UID})
	}
	f.Jobs[n-1].State, f.Jobs[n-1].Edges[0].Verdict = schedule.Finished, schedule.Failed
	f.Jobs[n].Edges[0].Edge = model(n - 1)
	f.Jobs[n].Edges[0].From = "another"
	d := schedule.Decide(f)
	assert.Empty(t, d.Admit)
	halted := slices.DeleteFunc(d.Policies[0].Rollouts, func(r schedule.RolloutState) bool { return r.Halted == nil })
	require.Len(t, halted, 1)
	assert.Equal(t, model(n-1).Target, halted[0].Target)
}

// A person looks into a halt with a job of their own, on a node whose update waits because of it.
func TestAnotherJobOfANodeDoesNotWaitForTheWaveOfTheFirst(t *testing.T) {
	one := intstr.FromInt32(1)
	f := spreading(2, 9, schedule.Plan{Waves: []schedule.Wave{{Name: "one", Size: &one}}})
	steps := job("n1", 9, schedule.Queued)
	steps.Name, steps.UID, steps.Steps = "look", "look", true
	f.Nodes[1].Scanned = true
	f.Jobs = append(f.Jobs, steps)
	d := schedule.Decide(f)
	var admitted []string
	for _, a := range d.Admit {
		admitted = append(admitted, a.Entry.Job)
	}
	assert.Equal(t, []string{f.Jobs[0].Name, "look"}, admitted)

	f.Jobs[1].Edges = nil
	d = schedule.Decide(f)
	require.Len(t, d.Wait, 1)
	assert.Equal(t, schedule.NodeBusy, d.Wait[0].Reason, "but it does for one that goes")
}

func TestAWaveInWhichEveryNodeFailedHaltsWhateverTheThresholds(t *testing.T) {
	one := intstr.FromInt32(1)
	f := spreading(3, 3, schedule.Plan{Waves: []schedule.Wave{{Name: "one", Size: &one}}, Halt: &schedule.Halt{MaxFailures: intstr.FromInt32(5)}})
	write(&f, schedule.Decide(f), schedule.Failed)
	d := schedule.Decide(f)
	assert.Empty(t, d.Policies[0].Add)
	require.NotNil(t, d.Policies[0].Rollouts[0].Halted)
	assert.Contains(t, d.Policies[0].Rollouts[0].Halted.Message, "no success")
}

// A canary whose disk the TPM alone opens shows nothing of the image, and its update is not tried again: another node of the wave goes in
// its place, and where there is none the policy says so.
func TestACanaryThatShowsNothingIsNotWaitedFor(t *testing.T) {
	one := intstr.FromInt32(1)
	f := spreading(3, 3, schedule.Plan{Waves: []schedule.Wave{{Name: "canary", Size: &one}}})
	f.Due = map[string][]schedule.Edge{"n0": nil, "n1": nil, "n2": nil}
	write(&f, schedule.Decide(f), schedule.Unknown)
	d := schedule.Decide(f)
	require.Len(t, d.Admit, 1)
	assert.Equal(t, "n1-j1", d.Admit[0].Entry.Job)

	f = spreading(3, 3, schedule.Plan{Waves: []schedule.Wave{{Name: "canary", Selector: mustSelect("canary")}}})
	f.Due = map[string][]schedule.Edge{"n0": nil, "n1": nil, "n2": nil}
	f.Nodes[0].Labels = map[string]string{"canary": ""}
	write(&f, schedule.Decide(f), schedule.Unknown)
	d = schedule.Decide(f)
	require.Len(t, d.Wait, 2)
	assert.Equal(t, schedule.WaveEmpty, d.Wait[0].Reason)
	assert.Contains(t, d.Wait[0].Message, "A node whose update is not tried again by itself does not wait: kubectl get nodefirmware says why.")
}
