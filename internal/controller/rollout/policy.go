package rollout

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// PolicyOf is what the schedule takes of a policy: its spec with windows, why that is invalid, and its ledger. Expected is how long a
// job takes about which too little is known. The simulation takes policies by it as the reconciler does, which keeps the calendar of
// a spec from pass to pass.
func PolicyOf(p *v1alpha1.RolloutPolicy, expected time.Duration) schedule.Policy {
	return policyWith(p, newCalendar(p), expected)
}

// policyWith is what the schedule takes of a policy whose calendar was made before.
func policyWith(p *v1alpha1.RolloutPolicy, c calendar, expected time.Duration) schedule.Policy {
	out := schedule.PoolOf(p)
	out.Calendar, out.Stopped, out.Expected = c.Calendar, c.stopped, expected
	var invalid string
	if out.Plan, invalid = planOf(p); out.Stopped == "" {
		out.Stopped = invalid
	}
	for _, t := range p.Spec.TopologyBudgets {
		if t.MaxUnavailable != nil {
			out.Topology = append(out.Topology, schedule.TopologyBudget{Key: t.TopologyKey, MaxUnavailable: *t.MaxUnavailable})
		}
	}
	return out
}

// DefaultExpected is how long a job is expected to take while too little is known, unless the operator is told otherwise.
const DefaultExpected = 30 * time.Minute
