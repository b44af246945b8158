package rollout

import (
	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// PolicyOf is what the schedule takes of a policy: its spec with windows and freezes, why that cannot be worked with, and its
// ledger.
func PolicyOf(p *v1alpha1.RolloutPolicy) schedule.Policy {
	return limited(p, newCalendar(p))
}
