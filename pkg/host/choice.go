package host

import (
	"context"
	"errors"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Choice says which driver was chosen for a device.
type Choice struct {
	// Device is the device as sysfs shows it, Place where it is plugged in.
	Device inventory.Identity
	Place  string
	// Driver and Version name the driver, Support says how well it knows the device.
	Driver, Version string
	Support         driver.Support
	// Passed says why drivers that support the device better were not chosen, by name.
	Passed map[string]error
}

// reportChoice reports a driver that a place did not have before.
func (h *Host) reportChoice(place string, id inventory.Identity, d driver.Driver, passed map[string]error) {
	if h.cfg.Chosen == nil {
		return
	}
	h.choosing.Lock()
	known := h.chosen[place] == d.Name()
	h.chosen[place] = d.Name()
	h.choosing.Unlock()
	if !known {
		h.cfg.Chosen(Choice{Device: id, Place: place, Driver: d.Name(), Version: d.Version(), Support: d.Support(id), Passed: passed})
	}
}

// Ties returns an error that names every device two drivers claim equally. It reads only sysfs, not the devices; a class that cannot be
// listed is left for the scans to report.
func (h *Host) Ties(ctx context.Context) error {
	var errs []error
	for _, c := range h.listAll(ctx, map[inventory.Class]error{}) {
		if c.Err != nil {
			continue // half an identity chooses no driver
		}
		_, err := h.cfg.Drivers.For(c.Identity)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
