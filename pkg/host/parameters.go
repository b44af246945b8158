package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Parameters reads all parameters of a device that the last scan found, as a scan reads the device itself: in its turn, within the same
// deadline, and only if the guard allows it at that moment. The error wraps driver.ErrNotSupported for a device that has none.
func (h *Host) Parameters(ctx context.Context, d inventory.Device, guard Guard) ([]inventory.Parameter, error) {
	var all []inventory.Parameter
	err := h.withSettings(ctx, d, guard, "read parameters of", func(ctx context.Context, c driver.Configurer) (err error) {
		all, err = c.Parameters(ctx, d.Identity)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Configure gives a device that the last scan found settings, if it takes them, in its turn and only if the guard allows it at that
// moment. A write that takes longer than a reading may goes on; the error then wraps command.ErrStillRunning.
func (h *Host) Configure(ctx context.Context, d inventory.Device, guard Guard, set []inventory.Setting) error {
	return h.withSettings(ctx, d, guard, "configure", func(ctx context.Context, c driver.Configurer) error {
		err := c.CheckConfiguration(ctx, d.Identity, driver.Configuration{Set: set})
		if err == nil {
			_, err = c.Configure(ctx, d.Identity, driver.Configuration{Set: set})
		}
		return err
	})
}

// withSettings does something with the settings of a device that the last scan found.
func (h *Host) withSettings(ctx context.Context, d inventory.Device, guard Guard, what string, do func(context.Context, driver.Configurer) error) error {
	if d.Err != nil {
		return d.Err
	}
	c, err := h.cfg.Drivers.Configurer(d)
	if err != nil {
		return err
	}
	if err := h.inTurn(ctx, d, guard, func(ctx context.Context) error { return do(ctx, c) }); err != nil {
		return fmt.Errorf("%s %s %s: %w", what, d.Class, d.UniqueID, err)
	}
	return nil
}

// inTurn does something with a device that the last scan found when nobody else does, if the guard allows it at that moment.
func (h *Host) inTurn(ctx context.Context, d inventory.Device, guard Guard, do func(context.Context) error) error {
	h.mu.Lock()
	place, found := h.places[placeKey(d)]
	h.mu.Unlock()
	if !found {
		return errors.New("the last scan did not find it")
	}
	done, err := attempt(ctx, h, place, func(ctx context.Context) error {
		if err := guard(d.Identity); err != nil {
			return err
		}
		return do(ctx)
	})
	return cmp.Or(err, done)
}

// notePlaces remembers where the devices of a scan are.
func (h *Host) notePlaces(candidates []candidate, devices []inventory.Device) {
	places := make(map[[2]string]string, len(devices))
	for i, d := range devices {
		places[placeKey(d)] = candidates[i].place
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.places = places
}

func placeKey(d inventory.Device) [2]string { return [2]string{string(d.Class), d.UniqueID} }
