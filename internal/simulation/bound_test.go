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

// No rollout is faster than its lower bound, whatever its waves, windows and troubles are.
func TestNoRolloutBeatsItsBound(t *testing.T) {
	complete, waved := 0, 0
	for seed := range uint64(300) {
		dice := rand.New(rand.NewPCG(seed, 7))
		o := atRandom(dice)
		o.Seed = seed
		r := run(t, o)
		if r.Report.Ending != simulation.Complete {
			continue
		}
		complete++
		p := r.Report.Policies[0]
		for name, bound := range p.Bounds {
			require.LessOrEqual(t, bound, p.Makespan, "seed %d, bound %s", seed, name)
		}
		if p.Bounds["waves"] == p.LowerBound {
			waved++
		}
	}
	assert.Greater(t, complete, 200, "most rollouts end")
	assert.Greater(t, waved, 100, "and of many the waves are what takes longest")
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

// atRandom is a rollout in waves with a random policy, fleet and troubles.
func atRandom(dice *rand.Rand) simulation.Options {
	models := []simulation.Weighted{{Value: "A", Weight: 1}, {Value: "B", Weight: dice.IntN(2)}}
	nodes := simulation.Made{Nodes: 2 + dice.IntN(60), Seed: dice.Uint64(), Models: models, Labels: map[string][]simulation.Weighted{
		"canary": {{Value: "yes", Weight: 1}, {Value: "no", Weight: 5}},
	}}.Fleet()
	p := policy("default", fmt.Sprint(1+dice.IntN(8)))
	soak := func() v1alpha1.Duration {
		return duration(time.Duration(dice.IntN(300)) * time.Minute)
	}
	switch dice.IntN(3) {
	case 0:
		for i, size := range []int{1, 3, 7, 15} {
			p.Spec.Waves = append(p.Spec.Waves, v1alpha1.RolloutWave{Name: fmt.Sprint("double", i), Size: ptrTo(intstr.FromInt(size)), Soak: soak()})
		}
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
		p.Spec.Windows = []v1alpha1.RolloutWindow{{Schedule: "0 22 * * *", Duration: "6h"}}
	}
	o := options(nodes, p)
	if dice.IntN(4) > 0 {
		o = troubled(o)
	}
	return o
}
