package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// inspectAll reads the devices side by side. The result has the order of the candidates.
func (h *Host) inspectAll(ctx context.Context, candidates []candidate, guard Guard) []inventory.Device {
	devices := make([]inventory.Device, len(candidates))
	slots := make(chan struct{}, h.cfg.Parallel)
	var group sync.WaitGroup
	for i, c := range candidates {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			devices[i] = h.inspect(ctx, c, guard)
		})
	}
	group.Wait()
	return devices
}

// inspect reads one device. If the driver fails, the result holds what sysfs reports.
func (h *Host) inspect(ctx context.Context, c candidate, guard Guard) inventory.Device {
	d := c.Device
	if d.Err != nil {
		return d // a driver must not be chosen by half an identity
	}
	type reading struct {
		driver driver.Driver
		own    inventory.Identity // what the card carries about itself
		id     inventory.Identity
		fw     inventory.Firmware
		passed map[string]error
		err    error
	}
	got, err := attempt(ctx, h, c.place, func(ctx context.Context) (r reading) {
		if r.err = guard(d.Identity); r.err != nil { // asked in the device's turn, so that the next reader knows the guard was asked
			return r
		}
		r.own = h.productData(c)
		if r.driver, r.passed, r.err = h.cfg.Drivers.Choose(d.Identity); r.driver != nil {
			h.reportChoice(c.place, d.Identity, r.driver, r.passed)
			r.id, r.fw, r.err = r.driver.Inspect(ctx, complete(d.Identity, r.own))
		}
		return r
	})
	if err == nil {
		err = got.err
	}
	d.Identity = complete(d.Identity, got.own)
	switch {
	case err != nil:
		d.Err = fmt.Errorf("read %s %s: %w", d.Class, d.UniqueID, err)
	case got.driver != nil && got.id.UniqueID != normalizeID(got.id.UniqueID):
		// It is what the driver locks its writes by, and what they are looked for by: there must be one spelling of it.
		d.Err = fmt.Errorf("read %s %s: driver %s gives the unique id %q, which has to be one word of at most %d bytes",
			d.Class, d.UniqueID, got.driver.Name(), got.id.UniqueID, maxID)
	case got.driver != nil:
		d.Driver, d.DriverMessage = got.driver.Name(), passedOver(got.passed)
		d.Identity = complete(d.Identity, got.id)
		d.Firmware = &got.fw
	}
	return d
}

// passedOver says why drivers were passed over, in order of name.
func passedOver(passed map[string]error) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(passed)) {
		parts = append(parts, fmt.Sprintf("%s supports the device better: %v", name, passed[name]))
	}
	return strings.Join(parts, "; ")
}

// productData is what a card carries about itself; nothing where it has no such data or it is damaged, which no update
// depends on.
func (h *Host) productData(c candidate) inventory.Identity {
	if c.function == nil {
		return inventory.Identity{}
	}
	vpd, err := sysfs.ReadVPD(h.cfg.FS, *c.function)
	if err != nil || vpd == nil {
		return inventory.Identity{}
	}
	return inventory.Identity{Model: productName(vpd.Product), PartNumber: vpd.PartNumber, SerialNumber: vpd.SerialNumber}
}

// productName is the name in front of a product's features: "ConnectX-6 Dx EN adapter card, 100GbE, Dual-port QSFP56".
func productName(s string) string {
	if i := strings.IndexAny(s, ",;"); i > 0 {
		return strings.TrimSpace(s[:i])
	}
	return s
}

// complete adds to what sysfs reports what the device reports about itself. The address of the device always comes from the
// kernel.
func complete(kernel, device inventory.Identity) inventory.Identity {
	out := kernel
	for _, field := range []struct{ to, from *string }{
		{&out.Vendor, &device.Vendor},
		{&out.Model, &device.Model},
		{&out.PartNumber, &device.PartNumber},
		{&out.SerialNumber, &device.SerialNumber},
		{&out.BoardID, &device.BoardID},
	} {
		if *field.from != "" {
			*field.to = *field.from
		}
	}
	if device.UniqueID != "" {
		out.UniqueID = device.UniqueID
	}
	return out
}

// attempt calls a function that may hang or panic, and gives up on it at the host's deadline. Calls with one key take
// turns; a call that hangs for good keeps its turn, so that no second one joins it.
func attempt[T any](ctx context.Context, h *Host, key string, call func(context.Context) T) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	var none T
	late := fmt.Errorf("no answer within %v", h.cfg.InspectTimeout)
	ctx, stop := context.WithTimeoutCause(ctx, h.cfg.InspectTimeout, late)
	defer stop()
	turn := h.turn(key)
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return none, errors.Join(context.Cause(ctx), errors.New("an earlier attempt still hangs"))
	}
	done := make(chan outcome, 1)
	go func() {
		defer func() { <-turn }()
		defer func() {
			if p := recover(); p != nil {
				done <- outcome{err: fmt.Errorf("reading it panicked: %v; report this with the model of the device", p)}
			}
		}()
		done <- outcome{value: call(ctx)}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

func (h *Host) turn(key string) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.turns[key] == nil {
		h.turns[key] = make(chan struct{}, 1)
	}
	return h.turns[key]
}

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
