package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Parameters reads all parameters of a device that the last scan found, as a scan reads the device itself: in its turn, within the same
// deadline, and only if the guard allows it at that moment. The error wraps driver.ErrNotSupported for a device that has none.
func (h *Host) Parameters(ctx context.Context, d inventory.Device, guard Guard) ([]inventory.Parameter, error) {
	if d.Err != nil {
		return nil, d.Err
	}
	c, err := h.cfg.Drivers.Configurer(d)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	place, found := h.places[placeKey(d)]
	h.mu.Unlock()
	if !found {
		return nil, errors.New("the last scan did not find the device")
	}
	type reading struct {
		all []inventory.Parameter
		err error
	}
	got, err := attempt(ctx, h, place, func(ctx context.Context) (r reading) {
		if r.err = guard(d.Identity); r.err == nil {
			r.all, r.err = c.Parameters(ctx, d.Identity)
		}
		return r
	})
	if err == nil {
		err = got.err
	}
	if err != nil {
		return nil, fmt.Errorf("read parameters of %s %s: %w", d.Class, d.UniqueID, err)
	}
	return got.all, nil
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
