package uplink

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Host is the network of one host.
type Host struct {
	// FS is the host's file system.
	FS fs.FS
	// Kernel says that the host is the machine of the running kernel, whose network namespace this process is in: the kernel
	// is asked then. Other hosts are read from the files of their first process.
	Kernel bool
}

// hop is the next hop of a default route.
type hop struct {
	address netip.Addr
	device  string
}

// neighbours are the next hops with a link-layer address that the kernel takes for valid.
type neighbours map[hop]bool

// Neighbours implements health.Network. Where a neighbour is not known to answer, the kernel of this machine is made to ask
// it; the answer is seen by the next call.
func (h Host) Neighbours(context.Context) ([]health.Neighbour, error) {
	hops, known, err := h.read()
	if err != nil {
		return nil, err
	}
	var out []health.Neighbour
	seen := map[hop]bool{}
	for _, hop := range hops {
		if seen[hop] {
			continue
		}
		seen[hop] = true
		ports, err := sysfs.Underlying(h.FS, hop.device)
		if err != nil {
			return nil, fmt.Errorf("find the hardware below %s: %w", hop.device, err)
		}
		out = append(out, health.Neighbour{Address: hop.address.String(), Ports: ports, Answers: known[hop]})
	}
	return out, nil
}

func (h Host) read() ([]hop, neighbours, error) {
	if h.Kernel {
		return askKernel()
	}
	return readFiles(h.FS)
}

// The files of the network namespace of the host's first process. They show IPv4 only (fib_route_seq_show and arp_seq_show
// of the kernel).
const (
	routeFile = "proc/1/net/route"
	arpFile   = "proc/1/net/arp"
)

// Flags of a route and of a neighbour entry (linux/route.h, linux/if_arp.h).
const (
	routeUp      = 0x1
	routeGateway = 0x2
	arpComplete  = 0x2
)

func readFiles(fsys fs.FS) ([]hop, neighbours, error) {
	routes, err := readTable(fsys, routeFile, 8)
	if err != nil {
		return nil, nil, err
	}
	entries, err := readTable(fsys, arpFile, 6)
	if err != nil {
		return nil, nil, err
	}
	hops, err := parseRoutes(routes)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", routeFile, err)
	}
	known, err := parseNeighbours(entries)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", arpFile, err)
	}
	return hops, known, nil
}

// readTable returns the fields of the lines below the heading, each with at least so many.
func readTable(fsys fs.FS, name string, columns int) ([][]string, error) {
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var rows [][]string
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if i == 0 {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < columns {
			return nil, fmt.Errorf("read %s: line %d has %d columns instead of at least %d", name, i+1, len(fields), columns)
		}
		rows = append(rows, fields)
	}
	return rows, nil
}

// parseRoutes returns the next hops of the default routes: Iface, Destination, Gateway, Flags, RefCnt, Use, Metric, Mask.
func parseRoutes(rows [][]string) ([]hop, error) {
	var hops []hop
	for _, r := range rows {
		flags, err := strconv.ParseUint(r[3], 16, 16)
		if err != nil {
			return nil, fmt.Errorf("flags of a route: %w", err)
		}
		if strings.Trim(r[1]+r[7], "0") != "" || flags&routeUp == 0 || flags&routeGateway == 0 {
			continue
		}
		address, err := strconv.ParseUint(r[2], 16, 32)
		if err != nil {
			return nil, fmt.Errorf("gateway of a route: %w", err)
		}
		var raw [4]byte
		binary.NativeEndian.PutUint32(raw[:], uint32(address)) // the kernel prints its own representation
		hops = append(hops, hop{address: netip.AddrFrom4(raw), device: r[0]})
	}
	return hops, nil
}

// parseNeighbours returns which neighbours are known: IP address, HW type, Flags, HW address, Mask, Device.
func parseNeighbours(rows [][]string) (neighbours, error) {
	known := neighbours{}
	for _, r := range rows {
		address, err := netip.ParseAddr(r[0])
		if err != nil {
			return nil, fmt.Errorf("address of a neighbour: %w", err)
		}
		flags, err := strconv.ParseUint(r[2], 0, 32)
		if err != nil {
			return nil, fmt.Errorf("flags of a neighbour: %w", err)
		}
		known[hop{address: address, device: r[5]}] = flags&arpComplete != 0
	}
	return known, nil
}

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
			if address, ok := netip.AddrFromSlice(addressOf(next)); ok {
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
		if r.Gw != nil || r.Via != nil {
			out = append(out, netlink.NexthopInfo{LinkIndex: r.LinkIndex, Gw: r.Gw, Via: r.Via})
		}
	}
	return out
}

// addressOf is the address of a gateway, which may be of another family than the route (RFC 8950).
func addressOf(n netlink.NexthopInfo) net.IP {
	if via, is := n.Via.(*netlink.Via); is {
		return via.Addr
	}
	return n.Gw
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
