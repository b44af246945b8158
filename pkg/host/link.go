package host

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"

	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

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
