package daemon

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// TestUnreadableIsNotAbsent proves R002-60.
func TestUnreadableIsNotAbsent(t *testing.T) {
	nic := inventory.Device{Identity: inventory.Identity{UniqueID: "nic"}}
	unreadable := inventory.Device{Identity: inventory.Identity{UniqueID: "0000:3b:00.0"}, Err: errors.New("busy")}
	ids, all := present(host.Inventory{Devices: []inventory.Device{nic}})
	assert.True(t, all)
	assert.Equal(t, []string{"nic"}, ids)
	_, all = present(host.Inventory{Devices: []inventory.Device{nic, unreadable}})
	assert.False(t, all)
	_, all = present(host.Inventory{Devices: []inventory.Device{nic}, Incomplete: map[inventory.Class]error{inventory.Disk: errors.New("EIO")}})
	assert.False(t, all)
}
