package uplink_test

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"net/netip"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/uplink"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

const (
	routeHead = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
	arpHead   = "IP address       HW type     Flags       HW address            Mask     Device\n"
)

// route is a line of /proc/net/route; the kernel prints addresses in its own byte order.
func route(device, to, via, mask string, flags int) string {
	hex := func(text string) string {
		raw := netip.MustParseAddr(text).As4()
		return fmt.Sprintf("%08X", binary.NativeEndian.Uint32(raw[:]))
	}
	return fmt.Sprintf("%s\t%s\t%s\t%04X\t0\t0\t100\t%s\t0\t0\t0\n", device, hex(to), hex(via), flags, hex(mask))
}

func arp(address, device string, flags int) string {
	return fmt.Sprintf("%-16s 0x%-10x0x%-10x%-17s     *        %s\n", address, 1, flags, "52:54:00:14:00:01", device)
}

func machine(routes, neighbours string, links ...string) fstest.MapFS {
	files := fstest.MapFS{
		"proc/1/net/route": {Data: []byte(routeHead + routes)}, "proc/1/net/arp": {Data: []byte(arpHead + neighbours)},
	}
	for _, l := range links {
		files["sys/class/net/"+l] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	}
	return files
}

func TestGatewaysAreTheNextHopsOfDefaultRoutes(t *testing.T) {
	const anywhere = "0.0.0.0"
	for name, c := range map[string]struct {
		machine fstest.MapFS
		want    []health.Neighbour
	}{
		"one that answers": {
			machine(route("eth0", anywhere, "10.20.0.1", anywhere, 3)+route("eth0", "10.20.0.0", anywhere, "255.255.255.0", 1), arp("10.20.0.1", "eth0", 2), "eth0"),
			[]health.Neighbour{{Address: "10.20.0.1", Ports: []string{"eth0"}, Answers: true}},
		},
		"one that does not": {
			machine(route("eth0", anywhere, "10.20.0.1", anywhere, 3), arp("10.20.0.1", "eth0", 0), "eth0"),
			[]health.Neighbour{{Address: "10.20.0.1", Ports: []string{"eth0"}}},
		},
		"one that nobody asked": {
			machine(route("eth0", anywhere, "10.20.0.1", anywhere, 3), arp("10.20.0.7", "eth0", 2), "eth0"),
			[]health.Neighbour{{Address: "10.20.0.1", Ports: []string{"eth0"}}},
		},
		"one that answers elsewhere": {
			machine(route("eth0", anywhere, "10.20.0.1", anywhere, 3), arp("10.20.0.1", "eth1", 2), "eth0"),
			[]health.Neighbour{{Address: "10.20.0.1", Ports: []string{"eth0"}}},
		},
		"through a VLAN on a bond": {
			machine(route("bond0.7", anywhere, "10.20.0.1", anywhere, 3), arp("10.20.0.1", "bond0.7", 2),
				"bond0.7/lower_bond0", "bond0/lower_eth1", "bond0/lower_eth0", "eth0/queues", "eth1/upper_bond0"),
			[]health.Neighbour{{Address: "10.20.0.1", Ports: []string{"eth0", "eth1"}, Answers: true}},
		},
		"two, one listed twice": {
			machine(route("eth0", anywhere, "10.20.0.1", anywhere, 3)+route("eth0", anywhere, "10.20.0.1", anywhere, 3)+
				route("eth1", anywhere, "10.30.0.1", anywhere, 3), arp("10.30.0.1", "eth1", 6), "eth0", "eth1"),
			[]health.Neighbour{{Address: "10.20.0.1", Ports: []string{"eth0"}}, {Address: "10.30.0.1", Ports: []string{"eth1"}, Answers: true}},
		},
		"no default route": {machine(route("eth0", "10.20.0.0", anywhere, "255.255.255.0", 1), ""), nil},
		"half the Internet": {
			machine(route("tun0", anywhere, "10.8.0.1", "128.0.0.0", 3), ""), nil,
		},
		"a default route without a gateway": {machine(route("ppp0", anywhere, anywhere, anywhere, 1), ""), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := uplink.Host{FS: c.machine}.Neighbours(t.Context())
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestHostThatCannotTellSaysSo(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{
		"no files":           {},
		"half a route":       machine("eth0\t00000000\n", ""),
		"a route of words":   machine("a b c up e f g h\n", ""),
		"a gateway of words": machine("eth0\t00000000\tsomewhere\t0003\t0\t0\t0\t00000000\n", ""),
		"half an entry":      machine("", "10.20.0.1 0x1\n"),
		"an entry of words":  machine("", "a b c d e f\n"),
		"flags of words":     machine("", "10.20.0.1 0x1 up 52:54:00:14:00:01 * eth0\n"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := uplink.Host{FS: files}.Neighbours(t.Context())
			assert.Error(t, err)
		})
	}
}

// TestKernelOfThisMachineIsAsked reads whatever the machine of the test has: the kernel and its files name the same gateways.
func TestKernelOfThisMachineIsAsked(t *testing.T) {
	root := sysfs.DirFS("/")
	if mounted, err := root.Mounted(); err != nil || !mounted {
		t.Skip("no sysfs")
	}
	asked, err := uplink.Host{FS: root, Kernel: true}.Neighbours(t.Context())
	require.NoError(t, err)
	var four []string
	for _, n := range asked {
		if netip.MustParseAddr(n.Address).Is4() {
			four = append(four, n.Address)
		}
	}
	listed, err := uplink.Host{FS: self{root}}.Neighbours(t.Context())
	require.NoError(t, err)
	var read []string
	for _, n := range listed {
		read = append(read, n.Address)
	}
	assert.ElementsMatch(t, read, four)
}

// self is a machine whose first process is this one.
type self struct{ sysfs.Tree }

func (s self) ReadFile(name string) ([]byte, error) {
	return fs.ReadFile(s.Tree, map[string]string{"proc/1/net/route": "proc/self/net/route", "proc/1/net/arp": "proc/self/net/arp"}[name])
}
