package inventory

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// PCIAddress is the address of one PCI function: domain, bus, device and function.
type PCIAddress struct {
	Domain, Bus, Device, Function uint16
}

// ParsePCIAddress parses "domain:bus:device.function" in hexadecimal, as sysfs spells it ("0000:3b:00.0").
func ParsePCIAddress(s string) (PCIAddress, error) {
	var parts [4]uint64
	domain, rest, ok1 := strings.Cut(s, ":")
	bus, rest, ok2 := strings.Cut(rest, ":")
	device, function, ok3 := strings.Cut(rest, ".")
	if !ok1 || !ok2 || !ok3 || len(domain) != 4 || len(bus) != 2 || len(device) != 2 || len(function) != 1 {
		return PCIAddress{}, fmt.Errorf("parse PCI address %q: want dddd:bb:dd.f", s)
	}
	for i, f := range []string{domain, bus, device, function} {
		n, err := strconv.ParseUint(f, 16, 16)
		if err != nil {
			return PCIAddress{}, fmt.Errorf("parse PCI address %q: want dddd:bb:dd.f", s)
		}
		parts[i] = n
	}
	if parts[2] > 0x1f || parts[3] > 7 {
		return PCIAddress{}, fmt.Errorf("parse PCI address %q: device is at most 1f and function at most 7", s)
	}
	return PCIAddress{uint16(parts[0]), uint16(parts[1]), uint16(parts[2]), uint16(parts[3])}, nil
}

// String spells the address as sysfs does.
func (a PCIAddress) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", a.Domain, a.Bus, a.Device, a.Function)
}

// Slot is the address without the function: all functions of a card share it.
func (a PCIAddress) Slot() string { return fmt.Sprintf("%04x:%02x:%02x", a.Domain, a.Bus, a.Device) }

// Compare orders addresses by domain, bus, device and function, as cmp.Compare does.
func (a PCIAddress) Compare(b PCIAddress) int {
	return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Bus, b.Bus), cmp.Compare(a.Device, b.Device),
		cmp.Compare(a.Function, b.Function))
}
