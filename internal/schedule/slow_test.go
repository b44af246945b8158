package schedule_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

const fiveMinutes = "the node took 5m20s to boot, 1m20s before the update; two boots in a row were slow"

// booting is what write does, and the nodes that it admits boot slowly since.
func booting(f *schedule.Facts, slowly string) schedule.Decision {
	d := schedule.Decide(*f)
	write(f, d, schedule.Succeeded)
	for _, a := range d.Admit {
		for i := range f.Jobs {
			if f.Jobs[i].UID == a.Entry.UID {
				f.Jobs[i].Slow = slowly
			}
		}
	}
	return d
}

// An image under which a canary boots slowly halts, though its job has succeeded. A person who goes on is not asked again.
func TestSlowBootHaltsItsUpdate(t *testing.T) {
	one := intstr.FromInt32(1)
	f := spreading(6, 6, schedule.Plan{Waves: []schedule.Wave{{Name: "canary", Size: &one}}})
	require.Len(t, booting(&f, fiveMinutes).Admit, 1)
	halted := booting(&f, fiveMinutes)
	assert.Empty(t, halted.Admit)
	r := halted.Policies[0].Rollouts[0]
	assert.Equal(t, schedule.RolloutHalted, r.Reason)
	assert.Contains(t, r.Message, "The update of 15b3:101d to 2 is halted. Job n0-j0 succeeded, but node n0 boots slowly: "+fiveMinutes+". Find the cause.")
	assert.Contains(t, r.Message, "kubectl patch rp default", "the command that goes on")
	assert.Equal(t, [3]int{1, 0, 1}, [3]int{r.Succeeded, r.Failed, r.Slow}, "it has succeeded")
	assert.Empty(t, booting(&f, fiveMinutes).Admit, "and nothing but a person ends that")

	f.Policies[0].Plan.Resume = "the link is trained again, as the vendor says"
	assert.Len(t, booting(&f, fiveMinutes).Admit, 5)
	last := booting(&f, "")
	assert.Nil(t, last.Policies[0].Rollouts[0].Halted, "that has been seen")
	assert.Equal(t, 6, last.Policies[0].Rollouts[0].Slow)
}

func TestSlowNodesAreNamed(t *testing.T) {
	for nodes, more := range map[int]string{1: "", 2: " So does node n1.", 3: " So does node n1, and 1 more."} {
		f := spreading(nodes, nodes, schedule.Plan{Halt: &schedule.Halt{MaxFailures: intstr.FromInt32(1)}})
		booting(&f, fiveMinutes)
		f.Jobs = append(f.Jobs, spreading(9, 9, schedule.Plan{}).Jobs[8])
		halted := schedule.Decide(f).Policies[0].Rollouts[0].Halted
		require.NotNil(t, halted)
		assert.Equal(t, "Job n0-j0 succeeded, but node n0 boots slowly: "+fiveMinutes+"."+more, halted.Message)
	}
}

// What a person lets fail without a halt may boot slowly as well, and a failure is not forgotten over a slow node.
func TestSlowNodesAmongOthers(t *testing.T) {
	f := spreading(4, 4, schedule.Plan{Halt: &schedule.Halt{MaxFailures: intstr.FromInt32(1), LenientAfter: 50}})
	booting(&f, fiveMinutes)
	assert.Nil(t, schedule.Decide(f).Policies[0].Rollouts[0].Halted)

	assert.Zero(t, schedule.Decide(f).Policies[0].Rollouts[0].Slow)

	booting(&f, fiveMinutes) // their verdicts are counted
	f.Nodes, f.Jobs = nodes(20), append(f.Jobs, spreading(20, 20, schedule.Plan{}).Jobs[4:]...)
	f.Policies[0].MaxUnavailable = intstr.FromInt32(4)
	require.Len(t, booting(&f, fiveMinutes).Admit, 4, "the pool has grown")
	grown := schedule.Decide(f).Policies[0].Rollouts[0]
	require.NotNil(t, grown.Halted, "what was let pass before is nothing that a person has seen")
	assert.Contains(t, grown.Halted.Message, "boots slowly: "+fiveMinutes)

	f = spreading(4, 4, schedule.Plan{Halt: &schedule.Halt{MaxFailures: intstr.FromInt32(1)}})
	booting(&f, "")
	f.Jobs[0].Edges[0].Verdict, f.Jobs[3].Slow = schedule.Failed, fiveMinutes
	halted := schedule.Decide(f).Policies[0].Rollouts[0].Halted
	require.NotNil(t, halted)
	assert.Contains(t, halted.Message, "1 failure in wave rest")
	assert.Contains(t, halted.Message, "node n3 boots slowly")
}
