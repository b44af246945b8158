package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// wavePlace says what is counted together: nodes in one state of the updates whose open wave has that name.
type wavePlace struct{ wave, state string }

// rollouts reports the updates that a pool is followed in, while nodes wait or are admitted. Those of one pool that are in a wave of the
// same name are counted together: neither the number of updates nor their versions and models make time series. An old halt that
// concerns no node raises no alert.
func rollouts(p *v1alpha1.RolloutPolicy, out chan<- prometheus.Metric) {
	places, halted := map[wavePlace]int{}, 0
	atRest := meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionComplete)
	keeps := slices.ContainsFunc(p.Status.Waiting, func(w v1alpha1.WaitingNodes) bool { return w.Reason == v1alpha1.ReasonRolloutHalted })
	for i := range p.Status.Rollouts {
		r := &p.Status.Rollouts[i]
		if atRest {
			continue
		}
		for state, n := range map[string]int32{"Done": r.Done, "Succeeded": r.Succeeded, "Failed": r.Failed} {
			places[wavePlace{r.Wave, state}] += int(n)
		}
		if keeps && r.HaltedTime != nil {
			halted++
		}
	}
	out <- poolHalted.gauge(halted, p.Name)
	for place, n := range places {
		out <- poolWave.gauge(n, p.Name, place.wave, place.state)
	}
}
