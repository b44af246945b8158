package rollout

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// calendar is what the windows of a policy in one generation come to.
type calendar struct {
	generation int64
	*window.Calendar
	// stopped says with the path of the field why they are invalid; empty when they are valid.
	stopped string
}

// calendars keeps the calendars of the policies, because reading time zones and looking for openings costs more than a pass.
type calendars map[types.UID]calendar

func (c calendars) of(p *v1alpha1.RolloutPolicy) calendar {
	if known, ok := c[p.UID]; ok && known.generation == p.Generation && p.UID != "" {
		return known
	}
	out := newCalendar(p)
	c[p.UID] = out
	return out
}

func newCalendar(p *v1alpha1.RolloutPolicy) calendar {
	out := calendar{generation: p.Generation}
	var err error
	if out.Calendar, err = schedule.CalendarOf(&p.Spec); err != nil {
		out.stopped = err.Error()
	}
	return out
}

// keep forgets the calendars of policies that are gone.
func (c calendars) keep(policies map[string]*v1alpha1.RolloutPolicy) {
	uids := map[types.UID]bool{}
	for _, p := range policies {
		uids[p.UID] = true
	}
	maps.DeleteFunc(c, func(uid types.UID, _ calendar) bool { return !uids[uid] })
}
