package simulation_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/simulation"
)

func TestWaveBoundIncludesSoaks(t *testing.T) {
	p := run(t, options(fleet(21), inWaves())).Report.Policies[0]
	assert.InDelta(t, (20*time.Minute + 24*time.Hour + 40*time.Minute).Seconds(), p.Bounds["waves"], 0, "a canary, its soak, and two rounds of ten")
	assert.InDelta(t, 1, p.Ratio, 0)

	assert.NotContains(t, run(t, options(fleet(21), policy("default", "10"))).Report.Policies[0].Bounds, "waves")
}

// Two waves that need no more nodes than the first soak together with it, and the longer soak decides.
func TestEmptyWaveAddsNoSoak(t *testing.T) {
	p := policy("default", "10")
	for i, soak := range []time.Duration{time.Hour, 3 * time.Hour, 2 * time.Hour} {
		p.Spec.Waves = append(p.Spec.Waves, v1alpha1.RolloutWave{Name: fmt.Sprint("w", i), Size: ptrTo(intstrOne), Soak: duration(soak)})
	}
	got := run(t, options(fleet(11), p)).Report.Policies[0]
	assert.InDelta(t, (20*time.Minute + 3*time.Hour + 20*time.Minute).Seconds(), got.Makespan, 0)
	assert.InDelta(t, got.Makespan, got.Bounds["waves"], 0)
}

// The jobs of one node need not go one after the other in the same place.
func TestRetriesAreJobsOfTheirOwn(t *testing.T) {
	for seed := range uint64(200) {
		o := options(fleet(7), policy("default", "6"))
		o.Seed, o.Work.Spread, o.Work.Failure.Default = seed, 0.3, 0.2
		p := run(t, o).Report.Policies[0]
		require.LessOrEqual(t, p.LowerBound, p.Makespan, "seed %d: %v", seed, p.Bounds)
	}
}

// No rollout is faster than its lower bound, whatever its policies, fleet and troubles are.
func TestNoRolloutBeatsItsBound(t *testing.T) {
	const cases = 300
	complete, decides := 0, map[string]int{}
	for seed := range uint64(cases) {
		dice := rand.New(rand.NewPCG(seed, 7))
		o := atRandom(dice)
		o.Seed = seed
		for _, p := range run(t, o).Report.Policies {
			if p.Finished == nil {
				continue
			}
			complete++
			for name, bound := range p.Bounds {
				require.LessOrEqual(t, bound, p.Makespan, "seed %d, policy %s, bound %s", seed, p.Name, name)
				if bound == p.LowerBound {
					decides[name]++
				}
			}
		}
	}
	assert.Greater(t, complete, cases, "most rollouts end")
	for _, bound := range []string{"work", "rounds", "topology", "node", "waves"} {
		assert.Greater(t, decides[bound], cases/100, "%s is what takes longest in some", bound)
	}
}

// A rollout in waves is within 5 % of its bound while nobody has to resume it.
func TestWavesStayCloseToBound(t *testing.T) {
	p := policy("default", "2%")
	hours := func(n int) v1alpha1.Duration { return duration(time.Duration(n) * time.Hour) }
	p.Spec.Waves = []v1alpha1.RolloutWave{
		{Name: "canary", Size: ptrTo(intstr.FromInt32(5)), Soak: hours(12)}, {Name: "tenth", Size: ptrTo(intstr.FromString("10%")), Soak: hours(4)},
		{Name: "half", Size: ptrTo(intstr.FromString("50%")), Soak: hours(2)},
	}
	o := options(fleet(1000), p)
	o.Work.Spread, o.Work.SlowBoot, o.Work.SlowBootFor = 0.2, 0.01, 20*time.Minute
	o.Work.Failure = simulation.ByModel[float64]{Default: 0.01}
	o.Work.Reaction = 20 * time.Second
	r := run(t, o)
	assert.Equal(t, simulation.Complete, r.Report.Ending)
	assert.InDelta(t, r.Report.Policies[0].Bounds["waves"], r.Report.LowerBound, 0)
	assert.GreaterOrEqual(t, r.Report.Ratio, 1.0)
	assert.LessOrEqual(t, r.Report.Ratio, 1.05)
}

// atRandom is a rollout over one to three pools with random policies, machines and troubles.
func atRandom(dice *rand.Rand) simulation.Options {
	some := func(values ...string) []simulation.Weighted {
		out := []simulation.Weighted{{Value: values[0], Weight: 1}}
		for _, v := range values[1:] {
			out = append(out, simulation.Weighted{Value: v, Weight: dice.IntN(3)})
		}
		return out
	}
	made := simulation.Made{
		Nodes: 2 + dice.IntN(80), Seed: dice.Uint64(), Models: some("A", "B", "A+B"), Versions: some("1.0", "1.1", "1.2", "1.3"), RackLabel: "rack",
		Labels: map[string][]simulation.Weighted{"canary": {{Value: "yes", Weight: 1}, {Value: "no", Weight: 5}}, "pool": some("default", "b", "c")},
	}
	if dice.IntN(2) == 0 {
		made.Racks = 1 + dice.IntN(min(8, made.Nodes))
	}
	o := options(made.Fleet())
	for _, pool := range made.Labels["pool"] {
		p := policyAtRandom(dice, pool.Value, made.Racks > 0)
		p.Spec.NodeSelector = selector(pool.Value)
		o.Policies = append(o.Policies, p)
	}
	for i := range o.Fleet {
		o.Fleet[i].Cordoned = dice.IntN(40) == 0
	}
	if dice.IntN(4) > 0 {
		o = troubled(o)
		o.Work.Held.Default = []float64{0.02, 0.2}[dice.IntN(2)]
	}
	return o
}

// policyAtRandom may have waves, windows, a halt, a short queue, and a budget for each rack.
func policyAtRandom(dice *rand.Rand, name string, racks bool) v1alpha1.RolloutPolicy {
	budget := func() string {
		return []string{fmt.Sprint(1 + dice.IntN(8)), fmt.Sprintf("%d%%", 1+dice.IntN(50))}[dice.IntN(2)]
	}
	p := policy(name, budget())
	soak := func() v1alpha1.Duration { return duration(time.Duration(dice.IntN(300)) * time.Minute) }
	switch dice.IntN(4) {
	case 0:
		for i, size := range []int{1, 3, 7, 15} {
			p.Spec.Waves = append(p.Spec.Waves, v1alpha1.RolloutWave{Name: fmt.Sprint("double", i), Size: ptrTo(intstr.FromInt(size)), Soak: soak()})
		}
	case 1: // none
	default:
		if dice.IntN(2) == 0 {
			p.Spec.Waves = append(p.Spec.Waves, v1alpha1.RolloutWave{
				Name: "canary", NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}, Soak: soak(),
			})
		}
		size := 0
		for i := range 1 + dice.IntN(3) {
			size += dice.IntN(6)
			p.Spec.Waves = append(p.Spec.Waves, v1alpha1.RolloutWave{Name: fmt.Sprint("w", i), Size: ptrTo(intstr.FromInt(max(1, size))), Soak: soak()})
		}
		p.Spec.Waves = append(p.Spec.Waves, v1alpha1.RolloutWave{Name: "half", Size: ptrTo(intstr.FromString("50%")), Soak: soak()})
	}
	if dice.IntN(3) == 0 {
		p.Spec.Windows = []v1alpha1.RolloutWindow{{Schedule: fmt.Sprintf("0 %d * * *", dice.IntN(24)), Duration: "6h"}}
	}
	if dice.IntN(3) == 0 {
		p.Spec.MaxQueued = ptrTo(1 + dice.Int32N(10))
	}
	if dice.IntN(3) == 0 {
		p.Spec.Halt = &v1alpha1.RolloutHalt{MaxHeld: dice.Int32N(4)}
	}
	if racks && dice.IntN(2) == 0 {
		p.Spec.TopologyBudgets = []v1alpha1.TopologyBudget{{TopologyKey: "rack", MaxUnavailable: ptrTo(intstr.Parse(budget()))}}
	}
	return p
}
