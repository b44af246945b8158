package chaos

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// span is a time from when on and until when something is so.
type span struct{ from, until time.Duration }

// rebuildTime is the last part of a time in which a set has no drive to spare: it rebuilds.
const rebuildTime = 2 * time.Minute

// degrade takes a drive that no job has out of a set.
func (w *world) degrade(set string, until time.Duration) {
	if set == "" {
		return
	}
	s := w.weak[set]
	if w.now >= s.until {
		s.from = w.now
	}
	s.until = max(s.until, until)
	w.weak[set] = s
}

// weakFor is for how long a set has had no drive to spare; zero for one that has.
func (w *world) weakFor(set string) time.Duration {
	if s, ok := w.weak[set]; ok && w.now < s.until {
		return w.now - s.from
	}
	return 0
}

// array is the state of a set.
func (w *world) array(name string) inventory.Array {
	a := inventory.Array{Name: name}
	if s := w.weak[name]; w.now < s.until {
		a.Degraded = true
		if w.now >= s.until-rebuildTime {
			a.Rebuilds = "recover"
		}
	}
	a.Degraded = a.Degraded || slices.ContainsFunc(w.devices, func(d *device) bool { return d.spec.Set == name && !d.gone && w.failed(d) })
	return a
}

// failed reports whether a drive has dropped out of its set because of what it runs.
func (w *world) failed(d *device) bool { return w.defect(d) != drivertest.DefectNone }

// Use implements engine.Uses. A drive that failed is no active member of its set any more.
func (h host) Use(ctx context.Context, id inventory.Identity) (inventory.Use, error) {
	d := h.device(id.UniqueID)
	if d == nil || d.spec.Set == "" && d.spec.Carries == "" {
		return inventory.Use{}, nil
	}
	h.point(opUse, Before, id.UniqueID)
	use := inventory.Use{Carries: d.spec.Carries}
	if d.spec.Set != "" && !h.failed(d) {
		use.Arrays = []inventory.Array{h.array(d.spec.Set)}
	}
	h.point(opUse, After, id.UniqueID)
	return use, ctx.Err()
}

// Arrays implements health.Arrays: the host lists those of the md driver.
func (h host) Arrays(context.Context) ([]inventory.Array, error) {
	var names []string
	for _, d := range h.devices {
		if strings.HasPrefix(d.spec.Set, "md") && !slices.Contains(names, d.spec.Set) {
			names = append(names, d.spec.Set)
		}
	}
	slices.Sort(names)
	var out []inventory.Array
	for _, name := range names {
		out = append(out, h.array(name))
	}
	return out, nil
}
