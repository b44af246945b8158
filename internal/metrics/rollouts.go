package metrics

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// stateOpen is the state of an update that nothing but the budget limits.
const stateOpen = "Open"

// wavePlace says what is counted together: nodes in one state of the updates whose open wave has that name.
type wavePlace struct{ wave, state string }

// rollouts reports the updates that a pool is followed in. Those of one pool that are in a wave of the same name are counted
// together, and those that no node has any more are left out: neither the number of updates nor their versions and models make
// time series, and an old halt that concerns no node raises no alert.
func rollouts(p *v1alpha1.RolloutPolicy, out chan<- prometheus.Metric) {
	states, places, halted := map[string]int{}, map[wavePlace]int{}, 0
	for i := range p.Status.Rollouts {
		r := &p.Status.Rollouts[i]
		if r.Waiting+r.Running == 0 {
			continue
		}
		for state, n := range map[string]int32{
			"Judged": r.Done, "Succeeded": r.Succeeded, "Failed": r.Failed, "Running": r.Running, "Waiting": r.Waiting,
		} {
			places[wavePlace{r.Wave, state}] += int(n)
		}
		if r.Waiting == 0 {
			continue
		}
		states[cmp.Or(r.Reason, stateOpen)]++
		if r.Halted != nil {
			halted++
		}
	}
	out <- poolHalted.gauge(halted, p.Name)
	for state, n := range states {
		out <- poolUpdates.gauge(n, p.Name, state)
	}
	for place, n := range places {
		out <- poolWave.gauge(n, p.Name, place.wave, place.state)
	}
}
