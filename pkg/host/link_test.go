package host_test

import (
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

// An administrator gave the interface another address; sysfs then says nothing of its own.
func TestTheRunningKernelKnowsThePermanentAddress(t *testing.T) {
	given, own := mac(0x99), mac(0x10)
	for name, tc := range map[string]struct {
		now, permanent string
		err            error
		want           string
	}{
		"it tells":                      {given, own, nil, own},
		"the driver knows none":         {given, "", nil, "pci.15b3-101d.0000:3b:00.0"},
		"it cannot be asked":            {"", "", errors.New("denied"), "pci.15b3-101d.0000:3b:00.0"},
		"it means another of that name": {mac(0x77), mac(0x66), nil, "pci.15b3-101d.0000:3b:00.0"},
	} {
		t.Run(name, func(t *testing.T) {
			m := sysfstest.NewMachine()
			m.Interface(m.PCI(mlx("0000:3b:00.0")), "eth0", map[string]string{"address": given, "addr_assign_type": "3"})
			h, err := host.New(host.Config{FS: m, Link: func(name string) (now, permanent net.HardwareAddr, err error) {
				assert.Equal(t, "eth0", name)
				now, _ = net.ParseMAC(tc.now)
				permanent, _ = net.ParseMAC(tc.permanent)
				return now, permanent, tc.err
			}})
			require.NoError(t, err)
			d := scan(t, h).Devices[0]
			assert.Equal(t, tc.want, d.UniqueID)
			assert.NoError(t, d.Err)
		})
	}
}

func TestTheKernelAnswersForAnInterfaceOfThisMachine(t *testing.T) {
	interfaces, err := sysfs.NetInterfaces(sysfs.DirFS("/"))
	require.NoError(t, err)
	for _, n := range interfaces {
		now, permanent, err := host.KernelLink(n.Name)
		if err != nil || now.String() != n.Address {
			continue // it is in another network namespace
		}
		if sysfsOnly := n.PermanentAddress(); sysfsOnly != "" && permanent != nil {
			assert.Equal(t, sysfsOnly, permanent.String())
		}
	}
	_, _, err = host.KernelLink("no-such-link")
	require.ErrorContains(t, err, "no-such-link")
}
