package uplink

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
)

const (
	// confirmed are the states of a neighbour that the kernel need not ask about, and silent those of one that gave no answer.
	confirmed = netlink.NUD_REACHABLE | netlink.NUD_PERMANENT | netlink.NUD_NOARP
	silent    = netlink.NUD_FAILED | netlink.NUD_INCOMPLETE
	// discardPort is the port of the datagram that makes the kernel look for a neighbour (RFC 863). Whether anybody listens
	// there does not matter.
	discardPort = 9
	// sendTimeout bounds the sending of that datagram, which the kernel only queues.
	sendTimeout = 100 * time.Millisecond
)

var families = []int{netlink.FAMILY_V4, netlink.FAMILY_V6}

// askKernel reads routes and neighbours from the running kernel.
func askKernel() ([]hop, neighbours, error) {
	var hops []hop
	known, devices, sure := neighbours{}, map[int]string{}, map[hop]bool{}
	for _, family := range families {
		routes, err := netlink.RouteList(nil, family)
		if err != nil {
			return nil, nil, fmt.Errorf("list routes: %w", err)
		}
		for _, next := range nextHops(routes) {
			link, err := netlink.LinkByIndex(next.LinkIndex)
			if err != nil {
				return nil, nil, fmt.Errorf("find the device of a default route: %w", err)
			}
			devices[next.LinkIndex] = link.Attrs().Name
			if address, ok := netip.AddrFromSlice(next.Gw); ok {
				hops = append(hops, hop{address: address.Unmap(), device: link.Attrs().Name})
			}
		}
		entries, err := netlink.NeighList(0, family)
		if err != nil {
			return nil, nil, fmt.Errorf("list neighbours: %w", err)
		}
		for _, e := range entries {
			if address, ok := netip.AddrFromSlice(e.IP); ok {
				h := hop{address: address.Unmap(), device: devices[e.LinkIndex]}
				known[h], sure[h] = e.State != netlink.NUD_NONE && e.State&silent == 0, e.State&confirmed != 0
			}
		}
	}
	for _, h := range hops {
		if !sure[h] {
			provoke(h)
		}
	}
	return hops, known, nil
}

// nextHops are the gateways of the default routes.
func nextHops(routes []netlink.Route) []netlink.NexthopInfo {
	var out []netlink.NexthopInfo
	for _, r := range routes {
		if r.Dst != nil && !isDefault(r.Dst) {
			continue
		}
		for _, n := range r.MultiPath {
			out = append(out, *n)
		}
		if r.Gw != nil {
			out = append(out, netlink.NexthopInfo{LinkIndex: r.LinkIndex, Gw: r.Gw})
		}
	}
	return out
}

func isDefault(n *net.IPNet) bool {
	ones, _ := n.Mask.Size()
	return ones == 0 && n.IP.IsUnspecified()
}

// provoke makes the kernel ask a neighbour for its address. It waits for no answer; an error says that the neighbour cannot be
// asked, which the next look shows as well.
func provoke(h hop) {
	to := net.UDPAddr{IP: h.address.AsSlice(), Port: discardPort}
	if h.address.IsLinkLocalUnicast() && h.address.Is6() {
		to.Zone = h.device
	}
	c, err := net.DialUDP("udp", nil, &to)
	if err != nil {
		return
	}
	defer c.Close()
	if c.SetWriteDeadline(time.Now().Add(sendTimeout)) == nil {
		_, _ = c.Write([]byte{0})
	}
}
