package host_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

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

const (
	// run is memory, and composefs the root of a system of ostree: what its first layer is mounted from is hidden.
	run       = "31 29 0:25 / /run rw - tmpfs run rw"
	composefs = "29 1 0:31 / / ro - overlay composefs ro,lowerdir=/run/ostree/.private/cfsroot-lower::/sysroot/ostree/repo/objects,metacopy=on\n" + run
	unseen    = "/, whose disk cannot be seen,"
)

// loop makes a loop device over a file.
func (m blocks) loop(file string) {
	m.over("loop0", "7:0", map[string]string{"loop/backing_file": file})
}

// to makes a link as a person does.
func (m blocks) to(name, target string) {
	m.MapFS[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

// runs starts a process with these files open. It sees the mounts of the host, unless it has its own.
func (m blocks) runs(mounts, commandLine string, open ...string) {
	dir, args := fmt.Sprintf("proc/%d", 800+len(m.MapFS)), strings.Fields(commandLine)
	m.File(dir+"/comm", path.Base(args[0]))
	m.MapFS[dir+"/cmdline"] = &fstest.MapFile{Data: []byte(strings.Join(args, "\x00") + "\x00")}
	if mounts == "" {
		mounts = strings.TrimSpace(string(m.MapFS["proc/1/mountinfo"].Data))
	}
	m.File(dir+"/mountinfo", mounts)
	for i, file := range append([]string{"/dev/null", "socket:[4711]", "/proc/1/stat"}, open...) {
		m.to(fmt.Sprintf("%s/fd/%d", dir, i), file)
	}
}

// What the node keeps elsewhere than usual is found by what runs, and by links.
func TestADriveUnderWhatTheNodeKeepsElsewhere(t *testing.T) {
	const other = "28 1 8:161 / / rw - ext4 /dev/sdb1 rw\n26 28 0:23 / /proc rw - proc none rw\n27 28 0:5 / /dev rw - devtmpfs udev rw\n"
	for name, c := range map[string]struct {
		set     func(blocks)
		carries string
	}{
		"nothing runs":                 {func(blocks) {}, ""},
		"a kubelet":                    {func(m blocks) { m.runs("", "/usr/bin/kubelet --config=/x --root-dir=/data/kubelet") }, "/data/kubelet"},
		"a kubelet as usual":           {func(m blocks) { m.runs("", "/usr/bin/kubelet --config=/x --root-dir") }, ""},
		"etcd":                         {func(m blocks) { m.runs("", "etcd --name m --data-dir /data/etcd/") }, "/data/etcd/"},
		"its log alone":                {func(m blocks) { m.runs("", "etcd -data-dir=/var/lib/etcd -wal-dir=/data") }, "/data"},
		"etcd told by its environment": {func(m blocks) { m.runs("", "etcd", "/data/etcd/member/snap/db") }, "the files of etcd"},
		"etcd below a directory":       {func(m blocks) { m.runs("", "etcd --data-dir=data", "/data/wal/0.wal (deleted)") }, "the files of etcd"},
		"etcd in a container": {func(m blocks) {
			m.runs("30 1 0:40 / / rw - overlay o rw,lowerdir=/x,upperdir=/y\n31 30 8:1 /etcd /var/lib/etcd rw - ext4 /dev/sda1 rw", "etcd --data-dir=/var/lib/etcd")
		}, "/var/lib/etcd"},
		"etcd in a container elsewhere": {func(m blocks) {
			m.runs("30 1 8:161 / / rw - ext4 /dev/sdb1 rw", "etcd --data-dir=/data", "/data/member/snap/db")
		}, "/data"},
		"containerd":                    {func(m blocks) { m.runs("", "containerd --root /data/c") }, "/data/c"},
		"containerd told by a file":     {func(m blocks) { m.runs("", "containerd", "/data/c/metadata.db") }, "the files of containerd"},
		"another program":               {func(m blocks) { m.runs("", "mysqld --data-dir=/data", "/data/db") }, ""},
		"open elsewhere":                {func(m blocks) { m.runs("", "etcd", "/var/lib/x/db") }, ""},
		"a process that ended":          {func(m blocks) { m.File("proc/7/comm", "etcd") }, ""},
		"a directory with another name": {func(m blocks) { m.File("proc/bus/comm", "etcd") }, ""},
		"what containers write": {func(m blocks) {
			m.mounts(other + "29 28 8:1 / /data rw - ext4 /dev/sda1 rw\n33 28 0:44 / /run/c/rootfs rw - overlay none rw,lowerdir=/x,upperdir=/var/lib/elsewhere/1,workdir=/w")
			m.to("var/lib/elsewhere", "../../data/c")
		}, "a container"},
		"a link to a link": {func(m blocks) {
			m.to("var/lib/etcd", "/srv/etcd")
			m.to("srv/etcd", "../data/etcd")
		}, "/var/lib/etcd"},
		"a link on the way": {func(m blocks) { m.to("var/lib", "/data/lib") }, "/var/lib/kubelet"},
		"a link in the middle": {func(m blocks) {
			m.to("opt/all", "../data")
			m.to("var/lib/etcd", "/opt/all/etcd")
		}, "/var/lib/etcd"},
		"a flag that is a link": {func(m blocks) {
			m.to("k8s", "data")
			m.runs("", "kubelet --root-dir=/k8s/kubelet")
		}, "/k8s/kubelet"},
		"a link out of the root":      {func(m blocks) { m.to("var/lib/etcd", "../../../../../data") }, "/var/lib/etcd"},
		"links without an end":        {func(m blocks) { m.to("var/lib/etcd", "/var/lib/etcd") }, ""},
		"a link to what is not there": {func(m blocks) { m.to("var/lib/etcd", "/gone/etcd") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := blocks{sysfstest.NewMachine()}
			m.disk("sda", "sg0", "0:0:0:0", "8:0", "sda1")
			m.disk("sdb", "sg1", "0:0:1:0", "8:160", "sdb1")
			m.mounts(other + "29 28 8:1 / /data rw - ext4 /dev/sda1 rw")
			c.set(m)
			got, err := newHost(t, m, &reader{}).Use(t.Context(), inventory.Identity{Class: inventory.Disk, Node: "sg0"})
			require.NoError(t, err)
			assert.Equal(t, inventory.Use{By: []string{"sda1 is mounted on /data"}, Carries: c.carries}, got)
		})
	}
}

func TestWhatMayNotBeSeenOfEtcdIsOnEveryDrive(t *testing.T) {
	for name, c := range map[string]struct {
		broken  string
		err     error
		carries string
		fails   string
	}{
		"its files":          {"proc/7/fd", fs.ErrPermission, "the files of etcd, whose disk cannot be seen,", ""},
		"one of them":        {"proc/7/fd/3", fs.ErrPermission, "the files of etcd, whose disk cannot be seen,", ""},
		"its command line":   {"proc/7/cmdline", syscall.EIO, "", "proc/7/cmdline"},
		"its mounts":         {"proc/7/mountinfo", syscall.EIO, "", "proc/7/mountinfo"},
		"a link on the way":  {"var/lib", syscall.EIO, "", "/var/lib"},
		"an end meanwhile":   {"proc/7/mountinfo", syscall.EINVAL, "", ""},
		"a file it closed":   {"proc/7/fd/3", fs.ErrNotExist, "", ""},
		"a name of somebody": {"proc/7/comm", fs.ErrPermission, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := blocks{sysfstest.NewMachine()}
			m.disk("sda", "sg0", "0:0:0:0", "8:0", "sda1")
			m.disk("sdb", "sg1", "0:0:1:0", "8:160", "sdb1")
			m.mounts("28 1 8:161 / / rw - ext4 /dev/sdb1 rw")
			m.Files("proc/7", map[string]string{"comm": "etcd", "cmdline": "etcd", "mountinfo": "28 1 8:161 / / rw - ext4 /dev/sdb1 rw"})
			m.to("proc/7/fd/3", "/var/db")
			h := newHost(t, sysfstest.Broken{FS: m, Errors: map[string]error{c.broken: c.err}}, &reader{})
			got, err := h.Use(t.Context(), inventory.Identity{Class: inventory.Disk, Node: "sg0"})
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.carries, got.Carries)
		})
	}
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
		}, inventory.Use{By: []string{"sda1 is mounted on /"}, Carries: "/"}},
		"the directory of the kubelet": {func(m blocks) {
			m.mounts("28 1 8:161 / / rw - ext4 /dev/sdb1 rw\n29 28 8:1 / /var/lib rw - ext4 /dev/sda1 rw")
		}, inventory.Use{By: []string{"sda1 is mounted on /var/lib"}, Carries: "/var/lib/kubelet"}},
		"images of containers": {func(m blocks) {
			m.mounts("28 1 8:161 / / rw - ext4 /dev/sdb1 rw\n29 28 8:1 / /var/lib/containerd rw - ext4 /dev/sda1 rw")
		}, inventory.Use{By: []string{"sda1 is mounted on /var/lib/containerd"}, Carries: "/var/lib/containerd"}},
		"all of k3s": {func(m blocks) {
			m.mounts("28 1 8:161 / / rw - ext4 /dev/sdb1 rw\n29 28 8:1 / /var/lib/rancher rw - ext4 /dev/sda1 rw")
		}, inventory.Use{By: []string{"sda1 is mounted on /var/lib/rancher"}, Carries: "/var/lib/rancher"}},
		"a link to another file system": {func(m blocks) {
			m.Link("var/lib/containerd", "data/containerd")
			m.mounts("28 1 8:161 / / rw - ext4 /dev/sdb1 rw\n29 28 8:1 / /data rw - ext4 /dev/sda1 rw")
		}, inventory.Use{By: []string{"sda1 is mounted on /data"}, Carries: "/var/lib/containerd"}},
		"a system from an image of ostree": {func(m blocks) {
			m.mounts(composefs + "\n30 29 8:1 / /sysroot rw - xfs /dev/sda1 rw")
		}, inventory.Use{By: []string{"sda1 is mounted on /sysroot"}, Carries: "/"}},
		"that of another drive": {func(m blocks) {
			m.mounts(composefs + "\n30 29 8:161 / /sysroot rw - xfs /dev/sdb1 rw\n32 29 8:1 / /srv rw - xfs /dev/sda1 rw")
		}, inventory.Use{By: []string{"sda1 is mounted on /srv"}}},
		"a system from a file": {func(m blocks) {
			m.mounts("29 1 0:31 / / ro - erofs /sysroot/image.cfs ro\n30 29 8:1 / /sysroot rw - xfs /dev/sda1 rw")
		}, inventory.Use{By: []string{"sda1 is mounted on /sysroot"}, Carries: "/"}},
		"a live system": {func(m blocks) {
			m.loop("/run/initramfs/live/LiveOS/squashfs.img")
			m.mounts("29 1 0:31 / / rw - overlay LiveOS_rootfs rw,lowerdir=/run/rootfsbase,upperdir=/run/overlayfs,workdir=/run/ovlwork\n" + run +
				"\n32 31 7:0 / /run/rootfsbase ro - squashfs /dev/loop0 ro\n33 31 8:1 / /run/initramfs/live ro - iso9660 /dev/sda1 ro")
		}, inventory.Use{By: []string{"sda1 is mounted on /run/initramfs/live"}, Carries: "/"}},
		"a live system over a snapshot": {func(m blocks) {
			m.loop("/run/initramfs/live/LiveOS/rootfs.img")
			m.over("dm-0", "253:0", map[string]string{"dm/name": "live-rw"}, "loop0")
			m.mounts("29 1 253:0 / / rw - ext4 /dev/mapper/live-rw rw\n" + run + "\n33 31 8:1 / /run/initramfs/live ro - iso9660 /dev/sda1 ro")
		}, inventory.Use{By: []string{"sda1 is mounted on /run/initramfs/live"}, Carries: "/"}},
		"a system whose disk is hidden": {func(m blocks) {
			m.mounts("29 1 0:31 / / rw - overlay root rw,lowerdir=/run/rootfsbase,upperdir=/run/overlayfs\n" + run)
		}, inventory.Use{Carries: unseen}},
		"a system from the image of a ramdisk": {func(m blocks) {
			m.loop("/rootfs.sqsh")
			m.mounts("29 1 7:0 / / ro - squashfs /dev/loop0 ro")
		}, inventory.Use{Carries: unseen}},
		"a file system that nobody knows": {func(m blocks) {
			m.mounts("29 1 0:31 / / rw - bcachefs /dev/sdb1:/dev/sdc1 rw")
		}, inventory.Use{Carries: unseen}},
		"a root in a pool that no drive is known of": {func(m blocks) {
			m.mounts("29 1 0:31 / / rw - zfs rpool/root rw")
		}, inventory.Use{Carries: unseen}},
		"a root in a pool": {func(m blocks) {
			m.File("run/udev/data/b8:1", "E:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL=rpool")
			m.File("proc/spl/kstat/zfs/rpool/state", "ONLINE")
			m.mounts("29 1 0:31 / / rw - zfs rpool/root rw")
		}, inventory.Use{
			By: []string{"sda1 is part of the ZFS pool rpool"}, Carries: "/", Arrays: []inventory.Array{{Name: "the ZFS pool rpool"}},
		}},
		"a system in memory": {func(m blocks) {
			m.mounts("29 1 0:2 / / rw - rootfs none rw")
		}, inventory.Use{}},
		"a system from the network": {func(m blocks) {
			m.mounts("29 1 0:31 / / rw - overlay root rw,lowerdir=/run/nfs,upperdir=/run/rw\n" + run + "\n32 31 0:40 / /run/nfs ro - nfs4 10.0.0.1:/x ro")
		}, inventory.Use{}},
		"what another mount hides": {func(m blocks) {
			m.mounts("28 1 8:1 / / rw - ext4 /dev/sda1 rw\n29 28 8:161 / / rw - ext4 /dev/sdb1 rw")
		}, inventory.Use{By: []string{"sda1 is mounted on /"}}},
		"a volume of a pod": {func(m blocks) {
			m.mounts("28 1 8:161 / / rw - ext4 /dev/sdb1 rw\n29 28 8:1 / /var/lib/kubelet/pods/1/volumes/2 rw - ext4 /dev/sda1 rw")
		}, inventory.Use{By: []string{"sda1 is mounted on /var/lib/kubelet/pods/1/volumes/2"}}},
		"the root file system on a ZFS pool": {func(m blocks) {
			m.mounts("28 1 0:31 / / rw - zfs rpool/ROOT/debian rw")
			m.File("run/udev/data/b8:1", "E:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL=rpool")
			m.File("proc/spl/kstat/zfs/rpool/state", "ONLINE")
		}, inventory.Use{By: []string{"sda1 is part of the ZFS pool rpool"}, Arrays: []inventory.Array{{Name: "the ZFS pool rpool"}}, Carries: "/"}},
		"a root file system on two drives": {func(m blocks) {
			m.mounts("28 1 0:31 / / rw - btrfs /dev/sdb1 rw")
			m.File("sys/fs/btrfs/6f4c/devices/sda1/dev", "8:1")
			m.File("sys/fs/btrfs/6f4c/devices/sdb1/dev", "8:161")
			m.File("sys/fs/btrfs/6f4c/devinfo/2/missing", "1")
		}, inventory.Use{
			By: []string{"sda1 is part of a mounted btrfs file system"}, Carries: "/",
			Arrays: []inventory.Array{{Name: "the btrfs file system 6f4c", Degraded: true}},
		}},
		"a mirror of LVM": {func(m blocks) {
			m.over("dm-0", "253:0", map[string]string{"dm/name": "my--vg-data_rimage_0", "dm/uuid": "LVM-0"}, "sda1")
			m.over("dm-1", "253:1", map[string]string{"dm/name": "my--vg-data_rimage_1", "dm/uuid": "LVM-1"}, "sdb1")
			m.over("dm-2", "253:2", map[string]string{"dm/name": "my--vg-data", "dm/uuid": "LVM-2"}, "dm-0", "dm-1")
		}, md(inventory.Array{Name: "the LVM RAID of my-vg"})},
		"a mirror of LVM that lacks a drive": {func(m blocks) {
			m.over("dm-0", "253:0", map[string]string{"dm/name": "vg-data_rimage_0", "dm/uuid": "LVM-0"}, "sda1")
			m.over("dm-3", "253:3", map[string]string{"dm/name": "vg-data_rimage_1-missing_0_0", "dm/uuid": "LVM-3"})
			m.over("dm-1", "253:1", map[string]string{"dm/name": "vg-data_rimage_1", "dm/uuid": "LVM-1"}, "dm-3")
			m.over("dm-2", "253:2", map[string]string{"dm/name": "vg-data", "dm/uuid": "LVM-2"}, "dm-0", "dm-1")
		}, md(inventory.Array{Name: "the LVM RAID of vg", Degraded: true})},
		"a path to a drive": {func(m blocks) {
			m.over("dm-0", "253:0", map[string]string{"dm/name": "mpatha", "dm/uuid": "mpath-3"}, "sda", "sdb")
		}, md(inventory.Array{Name: "the multipath set mpatha"})},
		"a file system that has a number of its own": {func(m blocks) {
			m.mounts("29 1 0:31 /@ /srv/my\\040data rw - btrfs /dev/sda1 rw")
		}, inventory.Use{By: []string{"sda1 is mounted on /srv/my data"}}},
		"the second drive of a btrfs": {func(m blocks) {
			m.File("sys/fs/btrfs/6f4c/devices/sda1/dev", "8:1")
		}, inventory.Use{By: []string{"sda1 is part of a mounted btrfs file system"}}},
		"a logical volume": {func(m blocks) {
			m.over("dm-0", "253:0", map[string]string{"dm/name": "vg-root", "dm/uuid": "LVM-1"}, "sda1")
			m.mounts("29 1 253:0 / / rw - xfs /dev/mapper/vg-root rw")
		}, inventory.Use{By: []string{"dm-0 is mounted on /"}, Carries: "/"}},
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
		}, inventory.Use{Arrays: []inventory.Array{{Name: "md0"}}, Carries: "/"}},
		"a mirror that carries other data": {func(m blocks) {
			m.array("md0", "9:0", nil, "sda1", "sdb1")
			m.mounts("29 1 9:0 / /srv rw - ext4 /dev/md0 rw")
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
			assert.Equal(t, inventory.Use{By: []string{"nvme0n1 is mounted on /"}, Carries: "/"}, got)
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

// What no job may ever do is not planned: the scan says so, and why.
func TestADriveThatWouldStartItsFirmwareUnderTheNodeIsReadOnly(t *testing.T) {
	deferred := inventory.Firmware{Running: "1.0", Activation: inventory.ActivateDeviceReset, Rollback: inventory.RollbackImage}
	atWrite, none := deferred, deferred
	atWrite.AtWrite, none.Activation = true, inventory.ActivateNone
	for name, c := range map[string]struct {
		point    string
		firmware inventory.Firmware
		readOnly bool
	}{
		"in the middle of the write": {"/", atWrite, true},
		"without any activation":     {"/", none, true},
		"at an activation":           {"/", deferred, false},
		"under data":                 {"/srv", atWrite, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := blocks{sysfstest.NewMachine()}
			m.disk("sda", "sg0", "0:0:0:0", "8:0", "sda1")
			m.mounts("29 1 8:1 / " + c.point + " rw - ext4 /dev/sda1 rw")
			h := newHost(t, m, &reader{supports: only(inventory.Disk), inspect: func(
				_ context.Context, id inventory.Identity,
			) (inventory.Identity, inventory.Firmware, error) {
				return id, c.firmware, nil
			}})
			devices := scan(t, h).Devices
			at := slices.IndexFunc(devices, func(d inventory.Device) bool { return d.Class == inventory.Disk })
			fw := *devices[at].Firmware
			if !c.readOnly {
				assert.Equal(t, c.firmware, fw)
				return
			}
			assert.Contains(t, fw.ReadOnly, "carries / of the node")
			assert.Equal(t, inventory.RollbackNone, fw.Rollback)
			assert.Equal(t, fw.ReadOnly, fw.RollbackMessage)
		})
	}
}

// Nobody knows the arrays of a drive when what is made of it cannot be read: it is not a drive of none.
func TestADriveWhoseArraysCannotBeReadIsUnreadable(t *testing.T) {
	m := blocks{sysfstest.NewMachine()}
	m.disk("sda", "sg0", "0:0:0:0", "8:0", "sda1")
	m.disk("sdb", "sg1", "0:0:1:0", "8:16", "sdb1")
	m.array("md0", "9:0", nil, "sda1", "sdb1")
	h := newHost(t, sysfstest.Broken{FS: m, Errors: map[string]error{"proc/1/mountinfo": syscall.EIO}}, &reader{})
	drives := 0
	for _, d := range scan(t, h).Devices {
		if d.Class == inventory.Disk {
			drives++
			require.ErrorIs(t, d.Err, syscall.EIO, d.UniqueID)
			assert.Nil(t, d.Firmware, d.UniqueID)
		}
	}
	assert.Equal(t, 2, drives)
	arrays, err := h.Arrays(t.Context())
	require.NoError(t, err, "arrays do not depend on mounts")
	assert.Equal(t, []inventory.Array{{Name: "md0"}}, arrays)
}
