package driver

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Prober is a Driver that can report in advance that it cannot work on this machine, for example because its tool is
// missing.
type Prober interface {
	// Usable returns why the driver cannot work here, or nil when no reason is known. It reads no device.
	Usable() error
}

// Reacher is a Driver that works on this machine and may still be unable to reach some devices, for example because the kernel
// does not let its tool.
type Reacher interface {
	// Reaches returns why the driver can neither read nor write a device that it supports, or nil when no reason is known. It
	// may read what the kernel says about itself, but not the device, and its answer may change only with a reboot.
	Reaches(id inventory.Identity) error
}

// ToolUser is a Driver that runs programs which are no part of this product.
type ToolUser interface {
	// Tools are the base names of these programs, and of those that they need themselves.
	Tools() []string
}

// Set is the list of drivers of one process.
type Set []Driver

// unusable is a driver in a Set that does not work on this machine.
type unusable struct {
	Driver
	reason error
}

// Probed asks each driver once whether it works on this machine. Drivers that do not are chosen only if no other driver
// supports a device: their error then says what to do. Reasons are by driver name.
func (s Set) Probed() (probed Set, reasons map[string]error) {
	probed, reasons = slices.Clone(s), map[string]error{}
	for i, d := range s {
		p, ok := d.(Prober)
		if !ok {
			continue
		}
		if err := p.Usable(); err != nil {
			probed[i], reasons[d.Name()] = unusable{d, err}, err
		}
	}
	return probed, reasons
}

// All lists the drivers in their original order.
func (s Set) All() []Driver {
	out := make([]Driver, len(s))
	for i, d := range s {
		if u, ok := d.(unusable); ok {
			d = u.Driver
		}
		out[i] = d
	}
	return out
}

// Tools are the programs that the drivers run, each once, in order of their names.
func (s Set) Tools() []string {
	var out []string
	for _, d := range s.All() {
		if user, ok := d.(ToolUser); ok {
			out = append(out, user.Tools()...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Without is the set without the drivers of these names. A name that no driver has is an error: otherwise a typo would leave a driver
// enabled that should not be.
func (s Set) Without(names ...string) (Set, error) {
	rest := slices.Clone(s)
	for _, name := range names {
		n := len(rest)
		rest = slices.DeleteFunc(rest, func(d Driver) bool { return d.Name() == name })
		if len(rest) == n && !slices.ContainsFunc(s, func(d Driver) bool { return d.Name() == name }) {
			return nil, fmt.Errorf("leave out driver %q: there is no driver of that name", name)
		}
	}
	return rest, nil
}

// Of returns the driver of an inspected device: the one that read it. It is an error if no driver read it, if that driver is
// no longer in the set, or if another driver claims the completed identity: a device is written only by the driver that read
// it.
func (s Set) Of(d inventory.Device) (Driver, error) {
	drv, err := s.For(d.Identity)
	switch {
	case err != nil:
		return nil, err
	case drv == nil || d.Firmware == nil:
		return nil, errors.New("no driver reads the device; add a driver, or leave the device out")
	case drv.Name() != d.Driver: // the completed identity may match another driver than the one from sysfs
		return nil, fmt.Errorf("driver %s reads the device and %s claims it then; leave one of them out with --disable-driver", d.Driver, drv.Name())
	}
	return drv, nil
}

// For returns the driver that supports the device best, or nil when none does. Drivers that do not work on this machine or do not
// reach the device rank last. Two drivers that support it equally well are an error: the choice of the writing driver must never
// be arbitrary.
func (s Set) For(id inventory.Identity) (Driver, error) {
	best, _, err := s.Choose(id)
	return best, err
}

// Choose is like For, and also returns why drivers that support the device better were passed over, by name.
func (s Set) Choose(id inventory.Identity) (chosen Driver, passed map[string]error, err error) {
	type rank struct {
		usable bool
		level  Support
	}
	var best, tie Driver
	var top rank
	obstacles, levels := map[string]error{}, map[string]Support{}
	for _, d := range s {
		var obstacle error
		if u, ok := d.(unusable); ok {
			d, obstacle = u.Driver, u.reason
		}
		r := rank{level: d.Support(id)}
		if r.level == SupportNone {
			continue
		}
		if reacher, ok := d.(Reacher); ok && obstacle == nil {
			obstacle = reacher.Reaches(id)
		}
		r.usable = obstacle == nil
		obstacles[d.Name()], levels[d.Name()] = obstacle, r.level
		better := r.usable && !top.usable || r.usable == top.usable && r.level > top.level
		switch {
		case best == nil || better:
			best, top, tie = d, r, nil
		case r == top:
			tie = d
		}
	}
	if tie != nil {
		return nil, nil, fmt.Errorf("choose driver for %s %s: %s and %s claim it equally; leave one of them out with --disable-driver, or remove its profile or plugin",
			id.Class, id.UniqueID, best.Name(), tie.Name())
	}
	maps.DeleteFunc(obstacles, func(name string, why error) bool { return why == nil || levels[name] <= top.level })
	return best, obstacles, nil
}

// Match selects devices: each list that is not empty must have an entry that is the device's value. Case is ignored.
type Match struct {
	Class   inventory.Class
	Support Support
	// Vendors and Models are names; VendorIDs and DeviceIDs are PCI ids of four hexadecimal digits.
	Vendors, VendorIDs, DeviceIDs, Models []string
	// SubsystemVendorIDs distinguish boards of different vendors with the same chip.
	SubsystemVendorIDs []string `json:",omitempty"`
	// Transports restrict drives; see inventory.Identity.
	Transports []string
	// Kernel are names of kernel drivers.
	Kernel []string
}

// Fits reports whether the match fits the device. A device passed through to a virtual machine fits none.
func (m Match) Fits(id inventory.Identity) bool {
	return id.Class == m.Class && id.Kernel != "vfio-pci" &&
		has(m.Vendors, id.Vendor) && has(m.VendorIDs, id.VendorID) && has(m.DeviceIDs, id.DeviceID) && has(m.Models, id.Model) &&
		has(m.SubsystemVendorIDs, id.SubsystemVendorID) && has(m.Transports, id.Transport) && has(m.Kernel, id.Kernel)
}

func has(list []string, value string) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(entry string) bool {
		return inventory.NormalizeID(entry) == inventory.NormalizeID(value)
	})
}
