package host_test

import (
	"maps"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

// blocks makes machines with block devices.
type blocks struct{ sysfstest.Machine }

// disk plugs in a SAS disk with partitions, the first of which is number 1.
func (m blocks) disk(name, generic, address, number string, partitions ...string) {
	function := m.PCI(sysfstest.Function{Address: "0000:18:00.0", Vendor: "1000", Device: "0097", Class: "010700", Driver: "mpt3sas"})
	dir := m.SCSI(sysfstest.Disk{Below: function, Address: address, Generic: generic, Block: name, Attributes: map[string]string{
		"vendor": "SEAGATE", "model": "ST16", "wwid": "naa." + name,
	}})
	m.Link("sys/class/scsi_generic/"+generic, dir+"/scsi_generic/"+generic)
	m.Link(dir+"/scsi_generic/"+generic+"/device", dir)
	m.File(path.Join(dir, "block", name, "dev"), number)
	m.Link("sys/class/block/"+name, path.Join(dir, "block", name))
	for _, p := range partitions {
		m.Files(path.Join(dir, "block", name, p), map[string]string{"dev": strings.TrimSuffix(number, "0") + p[len(name):], "partition": p[len(name):]})
		m.Link("sys/class/block/"+p, path.Join(dir, "block", name, p))
	}
}

// over adds a virtual block device over others.
func (m blocks) over(name, number string, attributes map[string]string, slaves ...string) {
	dir := "sys/devices/virtual/block/" + name
	m.Files(dir, map[string]string{"dev": number})
	m.Files(dir, attributes)
	m.Link("sys/class/block/"+name, dir)
	for _, s := range slaves {
		m.Link(path.Join(dir, "slaves", s), "sys/class/block/"+s)
	}
}

func (m blocks) array(name, number string, attributes map[string]string, members ...string) {
	all := map[string]string{"md/level": "raid1", "md/degraded": "0", "md/sync_action": "idle"}
	maps.Copy(all, attributes)
	for _, member := range members {
		if all["md/dev-"+member+"/state"] == "" {
			all["md/dev-"+member+"/state"] = "in_sync"
		}
	}
	m.over(name, number, all, members...)
}

func (m blocks) mounts(lines string) {
	m.File("proc/1/mountinfo", lines)
}

func TestUseOfADrive(t *testing.T) {
	md := func(a inventory.Array) inventory.Use { return inventory.Use{Arrays: []inventory.Array{a}} }
	for name, c := range map[string]struct {
		set  func(blocks)
		want inventory.Use
	}{
		"nothing uses it": {func(blocks) {}, inventory.Use{}},
		"the root file system": {func(m blocks) {
			m.mounts("29 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n40 29 8:1 /var/lib/kubelet /var/lib/kubelet rw - ext4 /dev/sda1 rw")
		}, inventory.Use{By: []string{"sda1 is mounted on /"}}},
		"a file system that has a number of its own": {func(m blocks) {
			m.mounts("29 1 0:31 /@ /srv/my\\040data rw - btrfs /dev/sda1 rw")
		}, inventory.Use{By: []string{"sda1 is mounted on /srv/my data"}}},
		"the second drive of a btrfs": {func(m blocks) {
			m.File("sys/fs/btrfs/6f4c/devices/sda1/dev", "8:1")
		}, inventory.Use{By: []string{"sda1 is part of a mounted btrfs file system"}}},
		"a logical volume": {func(m blocks) {
			m.over("dm-0", "253:0", map[string]string{"dm/name": "vg-root", "dm/uuid": "LVM-1"}, "sda1")
			m.mounts("29 1 253:0 / / rw - xfs /dev/mapper/vg-root rw")
		}, inventory.Use{By: []string{"dm-0 is mounted on /"}}},
		"a logical volume that nothing mounts": {func(m blocks) {
			m.over("dm-0", "253:0", map[string]string{"dm/name": "vg-data", "dm/uuid": "LVM-1"}, "sda1")
		}, inventory.Use{}},
		"an encrypted volume over multipath": {func(m blocks) {
			m.over("dm-0", "253:0", map[string]string{"dm/name": "mpatha", "dm/uuid": "mpath-3"}, "sda")
			m.over("dm-1", "253:1", map[string]string{"dm/name": "data", "dm/uuid": "CRYPT-1"}, "dm-0")
			m.mounts("29 1 253:1 / /data rw - xfs /dev/mapper/data rw")
		}, inventory.Use{By: []string{"dm-1 is mounted on /data"}}},
		"swap space": {func(m blocks) {
			m.File("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/sda2 partition 999 0 -2")
		}, inventory.Use{By: []string{"sda2 is swap space"}}},
		"a Ceph OSD": {func(m blocks) {
			m.over("dm-0", "253:0", map[string]string{"dm/name": "ceph--1--osd--block--2", "dm/uuid": "LVM-1"}, "sda")
		}, inventory.Use{By: []string{"dm-0 is a Ceph OSD"}}},
		"a Ceph OSD without a volume": {func(m blocks) {
			m.File("run/udev/data/b8:0", "S:disk/by-id/x\nE:ID_FS_TYPE=ceph_bluestore")
		}, inventory.Use{By: []string{"sda is a Ceph OSD"}}},
		"a ZFS pool": {func(m blocks) {
			m.File("run/udev/data/b8:1", "E:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL=tank")
			m.File("proc/spl/kstat/zfs/tank/state", "DEGRADED")
		}, inventory.Use{
			By:     []string{"sda1 is part of the ZFS pool tank"},
			Arrays: []inventory.Array{{Name: "the ZFS pool tank", Degraded: true}},
		}},
		"a ZFS pool that is not imported": {func(m blocks) {
			m.File("run/udev/data/b8:1", "E:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL=tank")
		}, inventory.Use{}},
		"a mirror that carries the root file system survives": {func(m blocks) {
			m.array("md0", "9:0", nil, "sda1", "sdb1")
			m.mounts("29 1 9:0 / / rw - ext4 /dev/md0 rw")
		}, md(inventory.Array{Name: "md0"})},
		"a degraded mirror": {func(m blocks) {
			m.array("md0", "9:0", map[string]string{"md/degraded": "1"}, "sda1")
		}, md(inventory.Array{Name: "md0", Degraded: true})},
		"a mirror that resyncs": {func(m blocks) {
			m.array("md0", "9:0", map[string]string{"md/sync_action": "resync"}, "sda1", "sdb1")
		}, md(inventory.Array{Name: "md0", Rebuilds: "resync"})},
		"a mirror that is checked": {func(m blocks) {
			m.array("md0", "9:0", map[string]string{"md/sync_action": "check"}, "sda1", "sdb1")
		}, md(inventory.Array{Name: "md0"})},
		"a mirror that has given it up": {func(m blocks) {
			m.array("md0", "9:0", map[string]string{"md/degraded": "1", "md/dev-sda1/state": "faulty"}, "sda1", "sdb1")
		}, inventory.Use{}},
		"stripes without redundancy": {func(m blocks) {
			m.over("md0", "9:0", map[string]string{"md/level": "raid0", "md/dev-sda1/state": "in_sync"}, "sda1", "sdb1")
			m.mounts("29 1 9:0 / /scratch rw - ext4 /dev/md0 rw")
		}, inventory.Use{By: []string{"md0 is mounted on /scratch"}}},
		"what uses another drive": {func(m blocks) {
			m.mounts("29 1 8:161 / / rw - ext4 /dev/sdb1 rw")
		}, inventory.Use{}},
	} {
		t.Run(name, func(t *testing.T) {
			m := blocks{sysfstest.NewMachine()}
			m.disk("sda", "sg0", "0:0:0:0", "8:0", "sda1", "sda2")
			m.disk("sdb", "sg1", "0:0:1:0", "8:16", "sdb1")
			c.set(m)
			h := newHost(t, m, &reader{})
			got, err := h.Use(t.Context(), inventory.Identity{Class: inventory.Disk, Node: "sg0"})
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestNVMeUseCountsAllPorts(t *testing.T) {
	for name, block := range map[string]string{
		"below its first controller": "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0/nvme0n1",
		"below the other one":        "sys/devices/pci0000:00/0000:00:01.0/0000:81:00.0/nvme/nvme1/nvme0n1",
		"below its subsystem":        "sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1",
	} {
		t.Run(name, func(t *testing.T) {
			m := blocks{sysfstest.NewMachine()}
			port(m.Machine, "nvme0", "0000:01:00.0", "S1", "nvme-subsys0", "live")
			port(m.Machine, "nvme1", "0000:81:00.0", "S1", "nvme-subsys0", "live")
			m.File(block+"/dev", "259:0")
			m.Link("sys/class/block/nvme0n1", block)
			m.mounts("29 1 259:0 / / rw - ext4 /dev/nvme0n1 rw")
			got, err := newHost(t, m, &reader{}).Use(t.Context(), inventory.Identity{Class: inventory.Disk, Node: "nvme0"})
			require.NoError(t, err)
			assert.Equal(t, inventory.Use{By: []string{"nvme0n1 is mounted on /"}}, got)
		})
	}
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	m := blocks{sysfstest.NewMachine()}
	m.disk("sda", "sg0", "0:0:0:0", "8:0", "sda1")
	m.mounts("Segmentation fault")
	_, err := newHost(t, m, &reader{}).Use(t.Context(), inventory.Identity{Class: inventory.Disk, Node: "sg0"})
	require.ErrorContains(t, err, "is not a mount entry")
	use, err := newHost(t, m, &reader{}).Use(t.Context(), inventory.Identity{Class: inventory.NIC, Node: "eth0"})
	require.NoError(t, err)
	assert.Zero(t, use, "a network adapter is no drive")
}

func TestArraysOfHostAndDrives(t *testing.T) {
	m := blocks{sysfstest.NewMachine()}
	m.disk("sda", "sg0", "0:0:0:0", "8:0", "sda1")
	m.disk("sdb", "sg1", "0:0:1:0", "8:16", "sdb1")
	m.array("md0", "9:0", map[string]string{"md/degraded": "1", "md/sync_action": "recover"}, "sda1", "sdb1")
	m.over("md1", "9:1", map[string]string{"md/level": "raid0"}, "sda", "sdb")
	h := newHost(t, m, &reader{})
	arrays, err := h.Arrays(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []inventory.Array{{Name: "md0", Degraded: true, Rebuilds: "recover"}}, arrays)
	for _, d := range scan(t, h).Devices {
		if d.Class == inventory.Disk {
			assert.Equal(t, []string{"md0"}, d.Arrays, d.UniqueID)
		}
	}
}
