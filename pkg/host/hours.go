package host

import (
	"context"
	"sync"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// addHours reads the power-on hours of the devices that a scan read and that count them, side by side and each in its turn. What cannot be
// read is not known; the device itself was read all the same.
func (h *Host) addHours(ctx context.Context, devices []inventory.Device, guard Guard) {
	slots := make(chan struct{}, h.cfg.Parallel)
	var group sync.WaitGroup
	for i := range devices {
		d := &devices[i]
		if d.Err != nil || d.Driver == "" {
			continue
		}
		drv, err := h.cfg.Drivers.Of(*d)
		meter, counts := drv.(driver.HourMeter)
		if err != nil || !counts {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			d.PowerOnHours = h.hours(ctx, *d, meter, guard)
		})
	}
	group.Wait()
}

// hours are the power-on hours of one device; nil where they are not known.
func (h *Host) hours(ctx context.Context, d inventory.Device, meter driver.HourMeter, guard Guard) *int64 {
	hours := new(int64)
	err := h.inTurn(ctx, d, guard, func(ctx context.Context) error {
		n, err := meter.PowerOnHours(ctx, d.Identity)
		*hours = n
		return err
	})
	if err != nil {
		return nil
	}
	return hours
}
