package devicename_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/internal/node/devicename"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestNameIsReadable(t *testing.T) {
	for name, tc := range map[string]struct {
		id   inventory.Identity
		want string
	}{
		"card by its base MAC":    {inventory.Identity{Class: inventory.NIC, UniqueID: "B8:CE:F6:00:12:34"}, "n1-nic-b8cef6001234"},
		"drive by its EUI":        {inventory.Identity{Class: inventory.Disk, UniqueID: "eui.0025385391B14A55"}, "n1-disk-eui0025385391b14a55"},
		"one BIOS a machine":      {inventory.Identity{Class: inventory.BIOS, UniqueID: "4C4C4544-0042"}, "n1-bios"},
		"slot does not matter":    {inventory.Identity{Class: inventory.NIC, UniqueID: "b8cef6001234", PCI: []inventory.PCIAddress{{Bus: 3}}}, "n1-nic-b8cef6001234"},
		"anonymous drive by hash": {inventory.Identity{Class: inventory.Disk, UniqueID: "--", Model: "QEMU", Node: "sda"}, "n1-disk-e8f03cf8"},
		"not the BIOS of n1-disk": {inventory.Identity{Class: inventory.Disk, UniqueID: "BIOS"}, "n1-disk-8bb882f0"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, devicename.Of("n1", tc.id)) })
	}
}

func TestAlwaysValidObjectName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?){0,3}`).Draw(t, "node")
		if len(node) > 253 {
			t.Skip("no node has such a name")
		}
		id := inventory.Identity{
			Class:    rapid.SampledFrom([]inventory.Class{inventory.NIC, inventory.Disk, inventory.BIOS}).Draw(t, "class"),
			UniqueID: rapid.String().Draw(t, "id") + strings.Repeat("x", rapid.IntRange(0, 300).Draw(t, "pad")),
		}
		assert.Empty(t, validation.IsDNS1123Subdomain(devicename.Of(node, id)))
	})
}

func TestLongNamesDiffer(t *testing.T) {
	long := strings.Repeat("0", 250)
	a := devicename.Of("n1", inventory.Identity{Class: inventory.Disk, UniqueID: long + "1"})
	b := devicename.Of("n1", inventory.Identity{Class: inventory.Disk, UniqueID: long + "2"})
	assert.NotEqual(t, a, b)
}
