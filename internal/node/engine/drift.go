package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// maxDrift bounds how many settings of a device are remembered, and maxDriftValue the length of each value in bytes.
const (
	maxDrift      = 64
	maxDriftValue = 512
)

// accepts reports whether the action ends the health gate with what runs accepted.
func (x *execution) accepts(a step.Action) bool {
	return a.Verb == step.Settle && a.State == step.Succeeded && a.Failure == nil && x.job.Record.Steps[a.Step].Kind == plan.Health
}

// lookForDrift compares what the devices that were flashed store of their settings with what was archived before. A device for which that
// is not known is left out.
func (x *execution) lookForDrift(ctx context.Context) {
	x.drift = map[string][]journal.Setting{}
	for _, u := range x.job.Updates {
		if !x.job.Record.Flashed(u.Device) || u.ResetUnlisted || u.ArchivedSettings { // all of its settings were given to it
			continue
		}
		drift, err := x.driftOf(ctx, u)
		switch {
		case errors.Is(err, driver.ErrNotSupported), errors.Is(err, archive.ErrNone):
		case err != nil:
			x.logger().Warn("Whether the update changed settings that nobody declares is not known", "job", x.job.Name, "device", u.Device, "err", err)
		default:
			x.drift[u.UniqueID] = drift
		}
	}
}

// driftOf are the settings that the job did not give the device and that are not what they were before it was flashed, with what they were.
func (x *execution) driftOf(ctx context.Context, u journal.Update) ([]journal.Setting, error) {
	_, before, err := x.cfg.Archive.Image(u.UniqueID, x.target(u.Device).From)
	if err != nil {
		return nil, err
	}
	view, err := x.cfg.Journal.View()
	if err != nil {
		return nil, err
	}
	var kept []journal.Setting
	for _, s := range before.Settings {
		kept = append(kept, journal.Setting(s))
	}
	was := merged(view.Devices[u.UniqueID].Drift, kept)
	if len(was) == 0 {
		return nil, nil
	}
	d, _, failure := x.device(ctx, u)
	if failure != nil {
		return nil, errors.New(failure.Message)
	}
	c, err := x.cfg.Drivers.Configurer(d)
	if err != nil {
		return nil, err
	}
	all, err := c.Parameters(ctx, d.Identity)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	gone := slices.DeleteFunc(plain(view.Devices[u.UniqueID].Drift), func(s inventory.Setting) bool { // firmware that comes later may know it again
		p := inventory.FindParameter(all, s.Name)
		return p != nil && p.Next.Known
	})
	given := names(slices.Concat(settings(u, false), settings(u, true)))
	out := slices.DeleteFunc(append(gone, inventory.Changed(plain(was), all)...), func(s inventory.Setting) bool {
		return inventory.Covers(given, s.Name, all) || len(s.Value) > maxDriftValue
	})
	if len(out) > maxDrift {
		x.logger().Warn("The update changed more settings that nobody declares than are remembered", "job", x.job.Name, "device", u.Device,
			"changed", len(out), "remembered", maxDrift)
		out = out[:maxDrift]
	}
	return journal.Settings(out), nil
}
