package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// candidate is a device as sysfs shows it, before its driver has read it.
type candidate struct {
	inventory.Device
	// place is where the device is plugged in. It separates devices that claim the same unique id.
	place string
	// function is the first PCI function of a card, nil for anything else.
	function *sysfs.PCIFunction
	// halves are what looks like parts of one card, each as a card of its own; nil for a card in one slot.
	halves []candidate
	// board is what they have in common.
	board board
}

// Scan lists all devices and reads each of them. One that cannot be read is in the result with its Err; one class that
// cannot be listed is in Incomplete. It fails only when the context ends or the boot id cannot be read.
func (h *Host) Scan(ctx context.Context) (Inventory, error) { return h.ScanGuarded(ctx, unguarded) }

// Guard says why a device must not be read now; nil when it may be. It knows the device as sysfs shows it.
type Guard func(inventory.Identity) error

func unguarded(inventory.Identity) error { return nil }

// ScanGuarded is Scan that asks a guard right before it reads a device, at a time when no other caller reads that
// device. The error of the guard becomes the Err of the device.
func (h *Host) ScanGuarded(ctx context.Context, guard Guard) (Inventory, error) {
	inv := Inventory{Incomplete: map[inventory.Class]error{}}
	var err error
	if inv.BootID, err = sysfs.BootID(h.cfg.FS); err != nil {
		return Inventory{}, err
	}
	// When the tables cannot be read, the BIOS class is incomplete and carries the error.
	if dmi, err := sysfs.ReadDMI(h.cfg.FS); err == nil && dmi != nil {
		inv.Machine = &inventory.Machine{
			Manufacturer: dmi.SystemVendor, Model: dmi.ProductName, SerialNumber: dmi.ProductSerial, UUID: dmi.ProductUUID,
		}
	}
	candidates := h.listAll(ctx, inv.Incomplete)
	candidates, devices := h.confirm(ctx, candidates, h.inspectAll(ctx, candidates, guard), guard)
	inv.Devices = separate(candidates, devices)
	h.notePlaces(candidates, inv.Devices)
	h.addHours(ctx, inv.Devices, guard)
	h.addUse(ctx, inv.Devices)
	if err := ctx.Err(); err != nil {
		return Inventory{}, fmt.Errorf("scan machine: %w", context.Cause(ctx))
	}
	slices.SortStableFunc(inv.Devices, func(a, b inventory.Device) int {
		return cmp.Or(strings.Compare(string(a.Class), string(b.Class)), strings.Compare(a.UniqueID, b.UniqueID))
	})
	return inv, nil
}

// listAll lists the classes concurrently and records those that are incomplete.
func (h *Host) listAll(ctx context.Context, incomplete map[inventory.Class]error) []candidate {
	classes := inventory.Classes()
	var group sync.WaitGroup
	lists, errs := make([][]candidate, len(classes)), make([]error, len(classes))
	for i, class := range classes {
		group.Go(func() { lists[i], errs[i] = h.list(ctx, class) })
	}
	group.Wait()
	for i, class := range classes {
		if errs[i] != nil {
			incomplete[class] = errs[i]
		}
	}
	return slices.Concat(lists...)
}

// Find lists one class again and reads only as many of its devices as it takes to find the one with the unique id; it does
// not rely on kernel names from before the last boot. Device.Err says why a device that exists cannot be read; err says why
// it is not known whether it exists.
func (h *Host) Find(ctx context.Context, class inventory.Class, uniqueID string) (device inventory.Device, found bool, err error) {
	candidates, err := h.list(ctx, class)
	likely := func(c candidate) bool { return c.UniqueID == uniqueID || namesSerial(uniqueID, c.SerialNumber) }
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(rank(likely(b)), rank(likely(a))) })
	claims := 0
	for claims < len(candidates) && likely(candidates[claims]) {
		claims++
	}
	devices := h.inspectAll(ctx, candidates[:claims], unguarded)
	if claims == 1 && devices[0].UniqueID == uniqueID {
		if _, confirmed := h.confirm(ctx, candidates[:1], devices, unguarded); confirmed[0].UniqueID == uniqueID {
			return confirmed[0], true, contextError(ctx)
		}
	}
	// The driver may know a better id than sysfs, or there is more than one claim.
	devices = append(devices, h.inspectAll(ctx, candidates[claims:], unguarded)...)
	devices = separate(h.confirm(ctx, candidates, devices, unguarded))
	if err := contextError(ctx); err != nil {
		return inventory.Device{}, false, err
	}
	for _, d := range devices {
		if d.UniqueID == uniqueID {
			return d, true, nil
		}
	}
	for _, d := range devices {
		if d.Err != nil && err == nil {
			err = d.Err // it may be the one
		}
	}
	if err != nil {
		return inventory.Device{}, false, fmt.Errorf("find %s %s: %w", class, uniqueID, err)
	}
	return inventory.Device{}, false, nil
}

// namesSerial reports whether the id has a part that is the serial number: drivers make an id of it where that of sysfs does not last.
func namesSerial(uniqueID, serial string) bool {
	serial = strings.Join(strings.Fields(serial), "-")
	return serial != "" && strings.HasSuffix(uniqueID, "-"+serial)
}

func rank(likely bool) int {
	if likely {
		return 1
	}
	return 0
}

func contextError(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("find device: %w", context.Cause(ctx))
}

// separate gives devices that claim one unique id ids of their own, made from their places. All of them get an Err,
// since it is not known which one an update was meant for.
func separate(candidates []candidate, devices []inventory.Device) []inventory.Device {
	type claim struct {
		class inventory.Class
		id    string
	}
	claims := map[claim][]int{}
	for i, d := range devices {
		c := claim{d.Class, d.UniqueID}
		claims[c] = append(claims[c], i)
	}
	for c, claimants := range claims {
		if len(claimants) == 1 {
			continue
		}
		var places []string
		for _, i := range claimants {
			places = append(places, candidates[i].place)
		}
		slices.Sort(places)
		for _, i := range claimants {
			devices[i].UniqueID = normalizeID(c.id + "@" + candidates[i].place)
			devices[i].Firmware = nil
			devices[i].Err = fmt.Errorf("%d devices claim the unique id %s, at %s; none is updated until one is replaced or removed",
				len(claimants), c.id, strings.Join(places, " and "))
		}
	}
	return devices
}

// list enumerates a class from sysfs. An error means that devices may be missing from the list. The kernel can hang in
// a read for as long as a device is being reset, so even this has a deadline.
func (h *Host) list(ctx context.Context, class inventory.Class) ([]candidate, error) {
	type listed struct {
		candidates []candidate
		err        error
	}
	got, err := attempt(ctx, h, "list "+string(class), func(ctx context.Context) listed {
		candidates, err := h.enumerate(ctx, class)
		return listed{candidates, err}
	})
	if err == nil {
		err = got.err
	}
	if err != nil {
		err = fmt.Errorf("list %s devices: %w", class, err)
	}
	return got.candidates, err
}

func (h *Host) enumerate(ctx context.Context, class inventory.Class) ([]candidate, error) {
	// Nothing at all below the host root looks like a machine without devices.
	if _, err := fs.Stat(h.cfg.FS, "sys/class"); err != nil {
		return nil, fmt.Errorf("sysfs is not mounted below the host root: %w", err)
	}
	switch class {
	case inventory.NIC:
		return h.nics(ctx)
	case inventory.StorageController:
		return h.controllers()
	case inventory.Disk:
		return h.disks()
	case inventory.BIOS:
		return h.bios()
	}
	return nil, errors.New("unknown class")
}
