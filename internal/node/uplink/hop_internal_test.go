package uplink

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/vishvananda/netlink"
)

// An IPv4 route may lead through an IPv6 neighbour, as in a fabric without IPv4 addresses.
func TestNextHopOfOtherFamily(t *testing.T) {
	router, other := net.ParseIP("fe80::1"), net.ParseIP("10.20.0.1")
	_, elsewhere, _ := net.ParseCIDR("10.30.0.0/16")
	via := func(ip net.IP) *netlink.Via { return &netlink.Via{AddrFamily: netlink.FAMILY_V6, Addr: ip} }
	var got []string
	for _, n := range nextHops([]netlink.Route{
		{LinkIndex: 2, Via: via(router)},
		{LinkIndex: 3, Gw: other},
		{MultiPath: []*netlink.NexthopInfo{{LinkIndex: 4, Via: via(router)}, {LinkIndex: 5, Gw: other}}},
		{LinkIndex: 6, Dst: elsewhere, Via: via(router)},
		{LinkIndex: 7},
	}) {
		got = append(got, addressOf(n).String())
	}
	assert.Equal(t, []string{"fe80::1", "10.20.0.1", "fe80::1", "10.20.0.1"}, got)
}
