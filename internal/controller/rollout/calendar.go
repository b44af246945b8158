package rollout

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// calendar is what the windows of a policy in one generation come to.
type calendar struct {
	generation int64
	*window.Calendar
	// stopped says with the path of the field why they cannot be worked with; empty when they can.
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
	if out.Calendar, err = calendarOf(&p.Spec); err != nil {
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
	for uid := range c {
		if !uids[uid] {
			delete(c, uid)
		}
	}
}

// calendarOf reads the windows. The error starts with the path of the field that is wrong.
func calendarOf(spec *v1alpha1.RolloutPolicySpec) (*window.Calendar, error) {
	var allow, deny []window.Rule
	for i := range spec.Windows {
		w := &spec.Windows[i]
		rule, err := ruleOf(w)
		var field *window.FieldError
		switch {
		case errors.As(err, &field):
			return nil, fmt.Errorf("spec.windows[%d].%w", i, err)
		case err != nil:
			return nil, fmt.Errorf("spec.windows[%d]: %w", i, err)
		case w.Effect == v1alpha1.WindowDeny:
			deny = append(deny, rule)
		default:
			allow = append(allow, rule)
		}
	}
	if len(allow)+len(deny) == 0 {
		return nil, nil
	}
	return window.New(allow, deny), nil
}

func ruleOf(w *v1alpha1.RolloutWindow) (window.Rule, error) {
	if w.StartTime != nil && w.EndTime != nil {
		return window.Once(w.Name, w.StartTime.Time, w.EndTime.Time)
	}
	return window.Recurring(w.Name, w.Schedule, w.Duration.Duration(0), w.TimeZone)
}
