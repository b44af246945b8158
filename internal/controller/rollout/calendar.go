package rollout

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// calendar is what the windows and freezes of a policy in one generation come to.
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

// calendarOf reads windows and freezes. The error starts with the path of the field that is wrong.
func calendarOf(spec *v1alpha1.RolloutPolicySpec) (*window.Calendar, error) {
	var windows, freezes []window.Rule
	for i, w := range spec.Windows {
		rule, err := window.Recurring(w.Name, w.Schedule, w.Duration.Duration, w.TimeZone)
		if err != nil {
			return nil, at("windows", i, err)
		}
		windows = append(windows, rule)
	}
	for i, f := range spec.Freezes {
		rule, err := freezeOf(f)
		if err != nil {
			return nil, at("freezes", i, err)
		}
		freezes = append(freezes, rule)
	}
	if len(windows)+len(freezes) == 0 {
		return nil, nil
	}
	return window.New(windows, freezes), nil
}

func freezeOf(f v1alpha1.RolloutFreeze) (window.Rule, error) {
	if f.Start != nil && f.End != nil {
		return window.Once(f.Name, f.Start.Time, f.End.Time)
	}
	var d time.Duration
	if f.Duration != nil {
		d = f.Duration.Duration
	}
	return window.Recurring(f.Name, f.Schedule, d, f.TimeZone)
}

func at(list string, i int, err error) error {
	var field *window.FieldError
	if errors.As(err, &field) {
		return fmt.Errorf("spec.%s[%d].%w", list, i, err)
	}
	return fmt.Errorf("spec.%s[%d]: %w", list, i, err)
}
