package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// pinned makes the updates of the numbered jobs come from pins.
func pinned(f schedule.Facts, jobs ...int) schedule.Facts {
	for _, i := range jobs {
		f.Jobs[i].Edges[0].Pinned = true
	}
	return f
}

// withCanary is a pool of n nodes with a wave of n0 alone, which soaks for a day.
func withCanary(n, budget int) schedule.Facts {
	f := spreading(n, budget, schedule.Plan{Waves: []schedule.Wave{{Name: "canary", Selector: mustSelect("canary"), Soak: 24 * time.Hour}}})
	f.Nodes[0].Labels = map[string]string{"canary": "true"}
	return f
}

// Whoever pins has decided: a pin waits for no wave, needs no label, and goes as the budget allows.
func TestPinsPassWaves(t *testing.T) {
	f := pinned(withCanary(4, 3), 1, 2)
	d := schedule.Decide(f)
	assert.Equal(t, []string{"n0", "n1", "n2"}, names(d), "both pins at once, beside the canary")
	assert.Equal(t, []bool{false, true, true}, []bool{d.Admit[0].PassesWaves, d.Admit[1].PassesWaves, d.Admit[2].PassesWaves})
	assert.Contains(t, d.Policies[0].Rollouts[0].Message, "0 of 1 node judged; the next wave opens when each of its nodes is judged. 2 nodes have a pin and wait for no wave.")

	alone := pinned(withCanary(2, 1), 1)
	alone.Nodes, alone.Jobs = alone.Nodes[1:], alone.Jobs[1:]
	d = schedule.Decide(alone)
	assert.Equal(t, []string{"n1"}, names(d), "no wave is empty for it")
	require.Len(t, d.Policies[0].Rollouts, 1)
	assert.Contains(t, d.Policies[0].Rollouts[0].Message, "1 node has a pin")

	assert.Len(t, names(schedule.Decide(pinned(withCanary(4, 1), 1, 2, 3))), 1, "the budget holds for pins")
}

// A node with two cards of a model, of which one is pinned, is a node of the wave for the other one while the pin runs.
func TestAPinHidesNoOtherDevice(t *testing.T) {
	f := withCanary(2, 1)
	pin := f.Jobs[0]
	pin.State, pin.Edges = schedule.Admitted, []schedule.JobEdge{pin.Edges[0]}
	pin.Edges[0].Pinned = true
	f.Jobs, f.Policies[0].Ledger = []schedule.Job{pin, f.Jobs[1]}, []schedule.Entry{entry(pin)}
	f.Due = map[string][]schedule.Edge{"n0": {edges[0]}}
	r := schedule.Decide(f).Policies[0].Rollouts
	require.Len(t, r, 1)
	assert.NotEqual(t, schedule.WaveEmpty, r[0].Reason, r[0].Message)
	assert.Contains(t, r[0].Message, "0 of 1 node judged")
}

// What a pin shows counts in no wave: its success opens none, proves nothing for its version, and its node is no part of a percentage.
func TestPinsGiveNoCredit(t *testing.T) {
	f := pinned(withCanary(3, 3), 1)
	f.Jobs = f.Jobs[1:]
	d := schedule.Decide(f)
	require.Equal(t, []string{"n1"}, names(d))
	write(&f, d, schedule.Succeeded)
	d = schedule.Decide(f)
	assert.Empty(t, names(d))
	assert.Equal(t, schedule.WaveEmpty, d.Policies[0].Rollouts[0].Reason)
	assert.Zero(t, d.Policies[0].Rollouts[0].Succeeded)
	assert.Empty(t, d.Policies[0].Rollouts[0].From)

	half := intstr.FromString("50%")
	f = pinned(spreading(8, 9, schedule.Plan{Waves: []schedule.Wave{{Name: "half", Size: &half}}, Rollouts: []schedule.Rollout{
		{Target: edges[0].Target, Wave: "half", From: []string{"1"}},
	}}), 4, 5, 6, 7)
	f.Due = map[string][]schedule.Edge{"other": nil}
	for _, n := range f.Nodes {
		f.Due[n.Name] = nil
	}
	late := edges[0]
	late.Pinned = true
	f.Nodes, f.Due["late"] = append(f.Nodes, schedule.Node{Name: "late", Ready: true}), []schedule.Edge{late}
	d = schedule.Decide(f)
	assert.Equal(t, []string{"n0", "n1", "n4", "n5", "n6", "n7"}, names(d), "half of four, and each pin")
	assert.Equal(t, 4, d.Policies[0].Rollouts[0].Nodes)
}

// A failure of a pin does not count in the wave. Where it holds its node, a person is needed there, so it counts for maxHeld.
func TestAPinThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		state  schedule.JobState
		halt   schedule.Halt
		halted bool
	}{
		"holds its node":       {schedule.Held, schedule.Halt{}, true},
		"holds as many as may": {schedule.Held, schedule.Halt{MaxHeld: 1, MaxFailures: intstr.FromInt32(1)}, false},
		"ends":                 {schedule.Finished, schedule.Halt{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := pinned(withCanary(3, 1), 1)
			f.Policies[0].Plan.Halt = &c.halt
			f.Jobs[1].State, f.Jobs[1].Edges[0].Verdict = c.state, schedule.Failed
			f.Policies[0].Ledger = []schedule.Entry{entry(f.Jobs[1])}
			f.Policies[0].MaxUnavailable = intstr.FromInt32(2)
			d := schedule.Decide(f)
			require.Len(t, d.Policies[0].Rollouts, 1)
			assert.Equal(t, c.halted, d.Policies[0].Rollouts[0].Halted != nil)
			assert.Zero(t, d.Policies[0].Rollouts[0].Failed)
			if !c.halted {
				assert.Equal(t, []string{"n0"}, names(d))
			}
			write(&f, d, schedule.Unknown)
			assert.Equal(t, c.halted, schedule.Decide(f).Policies[0].Rollouts[0].Halted != nil, "it is counted once")
		})
	}
}

// A halt is about an image, whoever selected it, and so is a doubt.
func TestHaltsStopPins(t *testing.T) {
	f := pinned(withCanary(2, 2), 1)
	f.Jobs = f.Jobs[1:]
	f.Policies[0].Plan.Rollouts = []schedule.Rollout{{Target: edges[0].Target, Wave: "canary", Failed: 1, Halted: &schedule.Halted{Time: epoch, Message: "Job x failed."}}}
	d := schedule.Decide(f)
	assert.Empty(t, names(d))
	require.Equal(t, schedule.RolloutHalted, d.Wait[0].Reason)
	assert.Equal(t, 1, d.Policies[0].Rollouts[0].Waiting, "the policy says who waits for the person")

	f = pinned(withCanary(2, 2), 1)
	f.Jobs[0].State, f.Jobs[0].Edges[0].Verdict = schedule.Admitted, schedule.OnTrial
	f.Policies[0].Ledger = []schedule.Entry{entry(f.Jobs[0])}
	assert.Empty(t, names(schedule.Decide(f)))
}

// Of a job with updates of a pin and of a template each goes by its own rule, so the job waits for the waves of those of the template. So
// does an update that one device has of a pin and another of a template.
func TestAJobWithAPinAndATemplate(t *testing.T) {
	f := withCanary(2, 2)
	f.Jobs = f.Jobs[1:]
	pin := edges[1]
	pin.Pinned = true
	f.Jobs[0].Edges = append(f.Jobs[0].Edges, schedule.JobEdge{Edge: pin})
	f.Policies[0].Plan.Rollouts = []schedule.Rollout{{Target: edges[0].Target, Wave: "canary", Succeeded: 1, LastVerdict: epoch, From: []string{"1"}}}
	assert.Empty(t, names(schedule.Decide(f)), "the canary soaks")
	f.Now = epoch.Add(24 * time.Hour)
	d := schedule.Decide(f)
	assert.Equal(t, []string{"n1"}, names(d))
	assert.False(t, d.Admit[0].PassesWaves)

	f = withCanary(2, 2)
	f.Jobs = f.Jobs[1:]
	same := edges[0]
	same.Pinned = true
	f.Jobs[0].Edges = append(f.Jobs[0].Edges, schedule.JobEdge{Edge: same})
	d = schedule.Decide(f)
	assert.Empty(t, names(d))
	assert.Equal(t, 1, d.Policies[0].Rollouts[0].Nodes)
}
