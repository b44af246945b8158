package sysfs

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// NetInterface is a network interface of a device (sys/class/net/<name>/).
type NetInterface struct {
	Name string
	// Device is what the interface belongs to (link device).
	Device Device
	// Type is the ARPHRD_* constant of the link layer (type).
	Type *int
	// Address is the current hardware address (address).
	Address string
	// AddressAssignment is the NET_ADDR_* constant that says where Address comes from (addr_assign_type).
	AddressAssignment *int
	// Permanent is the address burned into the device, as the kernel reports it over netlink; empty where the kernel
	// was not asked.
	Permanent string
	// EnslavedAddress is the address the interface had before it joined a bond (bonding_slave/perm_hwaddr).
	EnslavedAddress string
	// OperState is the state of RFC 2863 (operstate).
	OperState string
	// Carrier is 1 with a link and 0 without; nil while the interface is down (carrier).
	Carrier *int
	// PortName distinguishes ports, and representors of virtual functions (phys_port_name).
	PortName string
	// DevPort numbers the ports of one function from 0 (dev_port).
	DevPort *int
	// Err says what of the interface could not be read.
	Err error
}

// Values of Type and AddressAssignment (linux/if_arp.h, linux/netdevice.h).
const (
	ARPEthernet      = 1
	ARPInfiniBand    = 32
	addressPermanent = 0
)

const netClass = "sys/class/net"

// NetInterfaces lists the interfaces that belong to a device, in order of name. Those the kernel makes up (loopback,
// bridges, bonds, veth, VLANs) have no device link and are not listed.
func NetInterfaces(fsys fs.FS) ([]NetInterface, error) {
	names, err := list(fsys, netClass)
	if err != nil {
		return nil, err
	}
	var interfaces []NetInterface
	for _, name := range names {
		dir, err := follow(fsys, path.Join(netClass, name))
		if err != nil {
			return nil, err
		}
		if dir == "" {
			continue // bonding_masters is a file
		}
		device, err := follow(fsys, path.Join(dir, "device"))
		if err != nil {
			return nil, err
		}
		if device == "" {
			continue
		}
		if n, ok := readInterface(fsys, dir, device); ok {
			interfaces = append(interfaces, n)
		}
	}
	return interfaces, nil
}

func readInterface(fsys fs.FS, dir, device string) (NetInterface, bool) {
	a := attributes{fsys: fsys, dir: dir}
	n := NetInterface{
		Name:              path.Base(dir),
		Type:              a.number("type"),
		Address:           strings.ToLower(a.text("address")),
		AddressAssignment: a.number("addr_assign_type"),
		EnslavedAddress:   strings.ToLower(a.text("bonding_slave/perm_hwaddr")),
		OperState:         a.text("operstate"),
		PortName:          a.text("phys_port_name"),
		DevPort:           a.number("dev_port"),
	}
	// The carrier of an interface that is down cannot be asked for: the read fails with EINVAL.
	carrier := attributes{fsys: fsys, dir: dir}
	n.Carrier = carrier.number("carrier")
	var err error
	n.Device, err = deviceAt(fsys, device)
	n.Err = errors.Join(a.err, err)
	return n, !a.gone()
}

// PermanentAddress is the address burned into the device, empty where neither the kernel nor sysfs reports it: in sysfs, an
// interface that was given another address shows its own only as member of a bond.
func (n NetInterface) PermanentAddress() string {
	address := cmp.Or(n.Permanent, n.EnslavedAddress)
	if address == "" && (n.AddressAssignment == nil || *n.AddressAssignment == addressPermanent) {
		address = n.Address
	}
	if strings.Trim(address, "0:") == "" {
		return ""
	}
	return address
}

const lowerPrefix = "lower_"

// datapath is the device of the kernel's Open vSwitch. Its ports that are network devices are below it (ovs_netdev_link of
// net/openvswitch/vport-netdev.c); its internal ports, on which a host has its addresses, are connected to nothing.
const datapath = "ovs-system"

// madeUp reports whether the kernel made an interface up that is no bridge, bond or tunnel of a program, by the entries of its directory.
func madeUp(entries []string) bool {
	return len(entries) > 0 && !slices.ContainsFunc(entries, func(e string) bool {
		return e == "device" || e == "bridge" || e == "bonding" || e == "tun_flags"
	})
}

// Underlying lists the interfaces at the bottom of a stack of bonds, bridges and VLANs, in order of name: the interface
// itself when it is built on none (links lower_<name>). One that the kernel made up is taken for a port of its Open vSwitch where it has
// one: which of the others its flows use is not known, so all count.
func Underlying(fsys fs.FS, name string) ([]string, error) {
	ports, err := list(fsys, path.Join(netClass, datapath))
	if err != nil {
		return nil, err
	}
	hasDatapath := slices.ContainsFunc(ports, func(e string) bool { return strings.HasPrefix(e, lowerPrefix) })
	var bottom []string
	seen := map[string]bool{}
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		entries, err := list(fsys, path.Join(netClass, queue[0]))
		if err != nil {
			return nil, err
		}
		lower := 0
		for _, e := range entries {
			below, ok := strings.CutPrefix(e, lowerPrefix)
			if !ok {
				continue
			}
			if lower++; !seen[below] {
				seen[below] = true
				queue = append(queue, below)
			}
		}
		switch {
		case lower > 0:
		case madeUp(entries) && queue[0] != datapath && hasDatapath && !seen[datapath]:
			seen[datapath] = true
			queue = append(queue, datapath)
		case queue[0] != datapath:
			bottom = append(bottom, queue[0])
		}
	}
	slices.Sort(bottom)
	return bottom, nil
}
