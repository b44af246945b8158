package uplink_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/uplink"
)

// Open vSwitch puts the addresses of a host on a port of its own, which leads to no hardware. The network devices of its datapath do.
func TestGatewayBehindOVS(t *testing.T) {
	const anywhere = "0.0.0.0"
	routes, known := route("br-ex", anywhere, "10.20.0.1", anywhere, 3), arp("10.20.0.1", "br-ex", 2)
	for name, c := range map[string]struct {
		links []string
		want  []string
	}{
		"one adapter, a bond and a tunnel": {
			[]string{"br-ex/queues", "ovs-system/lower_eth0", "ovs-system/lower_bond0", "ovs-system/lower_genev_sys_6081", "eth0/device",
				"bond0/lower_eth1", "bond0/bonding", "eth1/device", "genev_sys_6081/queues"},
			[]string{"eth0", "eth1", "genev_sys_6081"},
		},
		"a datapath in user space": {[]string{"br-ex/tun_flags", "ovs-system/lower_eth0", "eth0/device"}, []string{"br-ex"}},
		"no datapath":              {[]string{"br-ex/queues"}, []string{"br-ex"}},
		"an empty datapath":        {[]string{"br-ex/queues", "ovs-system/queues"}, []string{"br-ex"}},
		"a bridge of the kernel":   {[]string{"br-ex/bridge", "ovs-system/lower_eth0", "eth0/device"}, []string{"br-ex"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := uplink.Host{FS: machine(routes, known, c.links...)}.Neighbours(t.Context())
			require.NoError(t, err)
			assert.Equal(t, []health.Neighbour{{Address: "10.20.0.1", Ports: c.want, Answers: true}}, got)
		})
	}
}
