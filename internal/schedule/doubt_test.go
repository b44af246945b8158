package schedule_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// placed gives the first nodes of a pool a place with a verdict, and returns the facts.
func placed(f schedule.Facts, state schedule.JobState, verdicts ...schedule.Verdict) schedule.Facts {
	for i, v := range verdicts {
		f.Jobs[i].State, f.Jobs[i].Edges[0].Verdict = state, v
		f.Policies[0].Ledger = append(f.Policies[0].Ledger, entry(f.Jobs[i]))
	}
	return f
}

// While a node restores what ran before, nobody else begins with the image in question, with waves and without.
func TestSuspicionHoldsOthers(t *testing.T) {
	for name, plan := range map[string]schedule.Plan{"no waves": {}, "halts": {Halt: &schedule.Halt{MaxHeld: 5}}} {
		t.Run(name, func(t *testing.T) {
			f := placed(spreading(4, 4, plan), schedule.Admitted, schedule.OnTrial)
			f.Jobs[3].Edges[0].Edge = edges[1]
			d := schedule.Decide(f)
			assert.Equal(t, []string{"n3"}, names(d), "another image is in no doubt")
			require.Len(t, d.Wait, 2)
			assert.Equal(t, schedule.WaitingForWave, d.Wait[0].Reason)
			assert.Contains(t, d.Wait[0].Message, "Job n0-j0 on node n0 restores the previous firmware to see whether the update of 15b3:101d to 2 is at fault")
			if len(d.Policies[0].Rollouts) > 0 {
				assert.Contains(t, d.Policies[0].Rollouts[0].Message, "Job n0-j0 on node n0 restores the previous firmware")
			}
			f.Jobs[0].State, f.Jobs[0].Edges[0].Verdict = schedule.Finished, schedule.Acquitted
			assert.Len(t, names(schedule.Decide(f)), 3, "it ends by itself")
		})
	}
}

// One node that is held and blames no image halts nothing and is no verdict; two may have a cause that nobody sees.
func TestTwoAcquittedStop(t *testing.T) {
	for name, plan := range map[string]schedule.Plan{"no waves": {}, "halts": {Halt: &schedule.Halt{}}} {
		t.Run(name, func(t *testing.T) {
			f := placed(spreading(4, 4, plan), schedule.Held, schedule.Acquitted)
			d := schedule.Decide(f)
			assert.Len(t, names(d), 3)
			assert.Empty(t, d.Policies[0].Judged)
			f = placed(spreading(4, 4, plan), schedule.Held, schedule.Acquitted, schedule.Acquitted)
			d = schedule.Decide(f)
			assert.Empty(t, names(d))
			assert.Contains(t, d.Wait[0].Message, "The update of 15b3:101d to 2 left nodes n0 and n1 unhealthy.")
			again := job("n0", 9, schedule.Queued)
			again.Edges, again.Planned, again.Follows = []schedule.JobEdge{{Edge: edges[0]}}, true, f.Jobs[0].Name
			retried := f
			retried.Jobs = append(retried.Jobs[:4:4], again)
			assert.Len(t, schedule.Decide(retried).Policies[0].Replace, 1, "a person tries again on a node that is held already")
			f.Jobs[0].State = schedule.Finished
			assert.Len(t, names(schedule.Decide(f)), 2, "one was released")
		})
	}
}

// A wave of one whose node is held with no image to blame takes another one.
func TestWaveReplacesAcquitted(t *testing.T) {
	one := intstr.FromInt32(1)
	f := placed(spreading(3, 3, schedule.Plan{Waves: []schedule.Wave{{Name: "one", Size: &one}}}), schedule.Held, schedule.Acquitted)
	d := schedule.Decide(f)
	assert.Len(t, names(d), 1)
	assert.Zero(t, d.Policies[0].Rollouts[0].Failed)
}

// Where the only node of the wave is such a one, the wave is empty because of it, and to repair it is a way out.
func TestHeldCanaryIsNamed(t *testing.T) {
	f := placed(spreading(3, 3, schedule.Plan{Waves: []schedule.Wave{{Name: "canary", Selector: mustSelect("canary")}}}), schedule.Held, schedule.Acquitted)
	d := schedule.Decide(f)
	r := d.Policies[0].Rollouts[0]
	assert.Equal(t, schedule.WaveEmpty, r.Reason)
	for _, says := range []string{"node " + f.Jobs[0].Node, "no image is blamed", "kubectl patch nfw n0 "} {
		assert.Contains(t, r.Message, says)
	}
	require.NotEmpty(t, d.Wait)
	assert.Equal(t, r.Message, d.Wait[0].Message)
}
