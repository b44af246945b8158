package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// card is a network adapter: all functions in one slot, or the interfaces of one parent off the PCI bus.
type card struct {
	place      string
	functions  []sysfs.PCIFunction
	interfaces []sysfs.NetInterface
	// halves are parts of the same card in other slots, and board is what they have in common; see joinHalves.
	halves []card
	board  board
}

// representor matches port names of interfaces that stand for a virtual function, a subfunction or the host's end of a
// DPU (Documentation/networking/switchdev.rst); they are no ports.
var representor = regexp.MustCompile(`^(c\d+)?pf\d+`)

func (h *Host) nics(ctx context.Context) ([]candidate, error) {
	functions, err := sysfs.PCIFunctions(h.cfg.FS, sysfs.PCINetwork)
	if err != nil {
		return nil, err
	}
	interfaces, err := sysfs.NetInterfaces(h.cfg.FS)
	if err != nil {
		return nil, err
	}
	for i := range interfaces {
		h.askPermanentAddress(&interfaces[i])
	}
	cards := h.joinHalves(ctx, groupCards(functions, interfaces))
	h.learnNames(functions)
	candidates := make([]candidate, 0, len(cards))
	for _, c := range cards {
		found := h.nic(c.whole())
		if found.board = c.board; len(c.halves) > 0 {
			for _, half := range append([]card{c}, c.halves...) {
				found.halves = append(found.halves, h.nic(half))
			}
		}
		candidates = append(candidates, found)
	}
	return candidates, nil
}

// groupCards sorts functions and interfaces into cards, in order of place. Functions of one slot with different vendors,
// which hypervisors can create, are different cards.
func groupCards(functions []sysfs.PCIFunction, interfaces []sysfs.NetInterface) []card {
	cards := map[string]*card{}
	at := func(place string) *card {
		if cards[place] == nil {
			cards[place] = &card{place: place}
		}
		return cards[place]
	}
	owners := map[string]*card{}
	adopt := func(f sysfs.PCIFunction) *card {
		c := at(f.Address.Slot() + " " + f.Vendor)
		c.functions = append(c.functions, f)
		owners[f.Path] = c
		return c
	}
	for _, f := range functions {
		adopt(f)
	}
	for _, n := range interfaces {
		owner := owners[n.Device.Path]
		if n.Device.Subsystem == "virtio" && owner == nil {
			owner = owners[path.Dir(n.Device.Path)]
		}
		virtual := n.Device.Function != nil && n.Device.Function.Physical != nil
		switch {
		case virtual, n.Device.Subsystem == "auxiliary", representor.MatchString(n.PortName):
			continue
		case owner == nil && n.Device.Function != nil: // of a class that is not network
			owner = adopt(*n.Device.Function)
		case owner == nil:
			owner = at(parent(n.Device))
		}
		owner.interfaces = append(owner.interfaces, n)
	}
	out := make([]card, 0, len(cards))
	for _, c := range cards {
		slices.SortFunc(c.functions, func(a, b sysfs.PCIFunction) int { return a.Address.Compare(b.Address) })
		slices.SortFunc(c.interfaces, compareInterfaces)
		c.place = strings.Fields(c.place)[0]
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b card) int { return strings.Compare(a.place, b.place) })
	return out
}

// compareInterfaces orders ports by what does not change with their names.
func compareInterfaces(a, b sysfs.NetInterface) int {
	return cmp.Or(
		cmp.Compare(value(a.DevPort), value(b.DevPort)),
		strings.Compare(a.PermanentAddress(), b.PermanentAddress()),
		strings.Compare(a.Name, b.Name),
	)
}

func value(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// parent is the directory that identifies a device off the PCI bus. The kernel numbers virtio devices in the order it finds
// them, so those are identified by the device that carries them.
func parent(d sysfs.Device) string {
	if d.Subsystem == "virtio" {
		return path.Dir(d.Path)
	}
	return d.Path
}

func (h *Host) nic(c card) candidate {
	d := inventory.Device{Identity: inventory.Identity{Class: inventory.NIC}}
	for _, f := range c.functions {
		d.Err = errors.Join(d.Err, f.Err)
		d.PCI = append(d.PCI, f.Address)
		if d.Kernel == "" || f.Driver == "vfio-pci" {
			d.Kernel = f.Driver // a card that a virtual machine has a function of must not look like the host's own
		}
		d.Ports = append(d.Ports, portsOf(f, c.interfaces)...)
	}
	if len(c.functions) > 0 {
		first := c.functions[0]
		d.VendorID, d.DeviceID = first.Vendor, first.Device
		d.SubsystemVendorID, d.SubsystemDeviceID = first.SubsystemVendor, first.SubsystemDevice
		d.Vendor, d.Model = h.nameOf(first.Vendor, ""), h.nameOf(first.Vendor, first.Device)
	} else {
		for _, n := range c.interfaces {
			d.Ports = append(d.Ports, portOf(n, inventory.PCIAddress{}))
			if n.Device.Subsystem == "usb" {
				d.Transport = "usb"
			}
		}
	}
	for _, n := range c.interfaces {
		d.Err = errors.Join(d.Err, n.Err)
		if n.Device.Subsystem == "virtio" || len(c.functions) == 0 {
			d.Kernel = cmp.Or(n.Device.Driver, d.Kernel)
		}
	}
	for _, p := range d.Ports {
		d.Node = cmp.Or(d.Node, p.NetDevice)
	}
	var err error
	d.UniqueID, err = h.nicID(c)
	d.Err = errors.Join(d.Err, err)
	found := candidate{Device: d, place: c.place}
	if len(c.functions) > 0 {
		found.function = &c.functions[0]
	}
	return found
}

// portsOf are the ports of one function; a function without an interface, having no driver or one that bypasses the
// kernel, is a port about which nothing is known.
func portsOf(f sysfs.PCIFunction, interfaces []sysfs.NetInterface) []inventory.Port {
	var ports []inventory.Port
	for _, n := range interfaces {
		if n.Device.Path == f.Path || path.Dir(n.Device.Path) == f.Path {
			ports = append(ports, portOf(n, f.Address))
		}
	}
	if len(ports) == 0 {
		ports = []inventory.Port{{PCI: f.Address, Link: inventory.LinkTypeUnknown, State: inventory.LinkUnknown}}
	}
	return ports
}

func portOf(n sysfs.NetInterface, address inventory.PCIAddress) inventory.Port {
	return inventory.Port{
		PCI: address, NetDevice: n.Name, Link: linkType(n.Type), State: linkState(n), MAC: n.PermanentAddress(),
	}
}

func linkType(arp *int) inventory.LinkType {
	switch {
	case arp != nil && *arp == sysfs.ARPEthernet:
		return inventory.Ethernet
	case arp != nil && *arp == sysfs.ARPInfiniBand:
		return inventory.InfiniBand
	}
	return inventory.LinkTypeUnknown
}

// linkState falls back to the carrier where the driver does not maintain the state (RFC 2863 "unknown").
func linkState(n sysfs.NetInterface) inventory.LinkState {
	switch n.OperState {
	case "up":
		return inventory.LinkUp
	case "down", "lowerlayerdown", "notpresent", "dormant", "testing":
		return inventory.LinkDown
	}
	switch {
	case n.Carrier == nil:
		return inventory.LinkUnknown
	case *n.Carrier == 1:
		return inventory.LinkUp
	}
	return inventory.LinkDown
}

// KernelLink is the address that an interface in this process' network namespace has now, and the one burned into it,
// empty where its driver knows none.
func KernelLink(name string) (now, permanent net.HardwareAddr, err error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, nil, fmt.Errorf("ask kernel for interface %s: %w", name, err)
	}
	a := link.Attrs()
	return a.HardwareAddr, a.PermHWAddr, nil
}

// askPermanentAddress completes what sysfs says of an Ethernet interface. The values of sysfs are kept when the kernel does
// not answer, or answers for an interface of the same name in another network namespace.
func (h *Host) askPermanentAddress(n *sysfs.NetInterface) {
	if h.cfg.Link == nil || n.Type == nil || *n.Type != sysfs.ARPEthernet {
		return
	}
	if now, permanent, err := h.cfg.Link(n.Name); err == nil && now.String() == n.Address {
		n.Permanent = permanent.String()
	}
}
