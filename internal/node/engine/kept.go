package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// settingsToKeep reads what the device stores of its settings, for the archive. Of what a job left that no health gate found good, it is what
// the device had before. A device whose settings cannot be read is archived without.
func (x *execution) settingsToKeep(ctx context.Context, d inventory.Device) ([]archive.Setting, error) {
	view, err := x.cfg.Journal.View()
	if err != nil {
		return nil, err
	}
	c, err := x.cfg.Drivers.Configurer(d)
	var all []inventory.Parameter
	if err == nil {
		all, err = c.Parameters(ctx, d.Identity)
	}
	if err != nil && !errors.Is(err, driver.ErrNotSupported) {
		x.logger().Warn("The device is archived without its settings", "job", x.job.Name, "device", d.UniqueID, "err", err)
	}
	out := archive.SettingsOf(all, plain(view.Devices[d.UniqueID].GoodSettings)...)
	if len(out) == 0 && len(all) > 0 {
		x.logger().Info("The device is archived without settings: it says of none what it stores, or has too many", "job", x.job.Name, "device", d.UniqueID)
	}
	return out, nil
}

// settingsToRestore are the archived settings that the device takes.
func (x *execution) settingsToRestore(u journal.Update, all []inventory.Parameter, coming bool) ([]inventory.Setting, error) {
	_, m, err := x.cfg.Archive.Restorable(u.Archived)
	if err != nil {
		return nil, fmt.Errorf("read its archived settings: %w", err)
	}
	out, left := m.SettingsFor(all, coming)
	out = slices.DeleteFunc(out, func(s inventory.Setting) bool {
		p := inventory.FindParameter(all, s.Name)
		is := p != nil && !p.Stores(s.Value) && p.Needs == inventory.ActivatePowerCycle
		if is {
			left = append(left, s.Name)
		}
		return is
	})
	if len(left) > 0 {
		x.logger().Warn("The device does not take these archived settings any more", "job", x.job.Name, "device", u.Device, "names", left)
	}
	return out, nil
}
