package host_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

// driveSize is what the drive sda stores, in bytes.
const driveSize = 1 << 20

// spare is a machine with a drive sda with two partitions, which nothing uses, beside the drive sdb with its system.
func spare(t require.TestingT) blocks {
	m := blocks{sysfstest.NewMachine()}
	m.disk("sda", "sg0", "0:0:0:0", "8:0", "sda1", "sda2")
	m.disk("sdb", "sg1", "0:0:1:0", "8:160", "sdb1")
	m.File("sys/devices/pci0000:00/0000:00:01.0/0000:18:00.0/host0/target0:0:0/0:0:0:0/block/sda/size", "2048")
	m.mounts("28 1 8:161 / / rw - ext4 /dev/sdb1 rw\n26 28 0:23 / /proc rw - proc none rw")
	return m
}

// claim writes the machine to a directory, whose files stand for its devices, and claims a drive.
func claim(t require.TestingT, dir string, m blocks, node string) ([]host.Volume, error) {
	for name, f := range m.MapFS {
		path := filepath.Join(dir, name)
		if f.Mode.IsDir() {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if f.Mode&fs.ModeSymlink != 0 {
			require.NoError(t, os.Symlink(string(f.Data), path))
			continue
		}
		require.NoError(t, os.WriteFile(path, f.Data, 0o600))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "dev"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "dev/sda"), bytes.Repeat([]byte("sda "), driveSize/4), 0o600))
	h, err := host.New(host.Config{FS: sysfs.DirFS(dir)})
	require.NoError(t, err)
	return h.Claim(context.Background(), inventory.Identity{Class: inventory.Disk, Node: node, UniqueID: "naa.sda"})
}

// uses are what keeps a drive from being claimed, by what is said of it.
var uses = map[string]func(blocks){
	"sda1 is mounted on /data": func(m blocks) { m.add("29 28 8:1 / /data rw - ext4 /dev/sda1 rw") },
	"sda is mounted on /whole": func(m blocks) { m.add("29 28 8:0 / /whole rw - xfs /dev/sda rw") },
	"/var/lib/etcd is on it":   func(m blocks) { m.add("29 28 8:2 / /var/lib/etcd rw - ext4 /dev/sda2 rw") },
	"sda2 is swap space":       func(m blocks) { m.File("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 8 0 -2") },
	"md0 is made of it":        func(m blocks) { m.array("md0", "9:0", nil, "sda1", "sdb1") },
	"dm-0 vg-data is made of it": func(m blocks) {
		m.over("dm-0", "253:0", map[string]string{"dm/name": "vg-data", "dm/uuid": "LVM-x"}, "sda2")
	},
	"dm-1 luks is made of it": func(m blocks) {
		m.over("dm-1", "253:1", map[string]string{"dm/name": "luks", "dm/uuid": "CRYPT-LUKS2-x"}, "sda")
	},
	"sdc1 is mounted on /other": func(m blocks) { // another path to the same drive
		m.disk("sdc", "sg2", "0:0:2:0", "8:320", "sdc1")
		m.File(pathDir(2)+"/wwid", "naa.sda")
		m.add("29 28 8:321 / /other rw - ext4 /dev/sdc1 rw")
	},
	"sdd1 is mounted on /nameless": func(m blocks) { // another path of which the kernel read the serial number alone
		m.disk("sdd", "sg3", "0:0:3:0", "8:480", "sdd1")
		m.File(pathDir(3)+"/wwid", "")
		m.serial(0, "S1")
		m.serial(3, "S1")
		m.add("29 28 8:481 / /nameless rw - ext4 /dev/sdd1 rw")
	},
	"bcache0 is made of it":      func(m blocks) { m.over("bcache0", "252:0", nil, "sda") },
	"loop0 is made of /dev/sda1": func(m blocks) { m.loop("/dev/sda1") },
	"dd (process 77) has it open": func(m blocks) {
		m.File("proc/77/comm", "dd")
		m.to("proc/77/fd/3", "/dev/sda")
	},
	"/dev/sda is given to other machines over NVMe": func(m blocks) {
		m.Files("sys/kernel/config/nvmet/subsystems/nqn/namespaces/1", map[string]string{"device_path": "/dev/sda", "enable": "1"})
	},
	"/dev/sda2 is given to other machines over SCSI": func(m blocks) {
		m.File("sys/kernel/config/target/core/fileio_0/data/udev_path", "/dev/sda2")
	},
}

// pathDir is the directory of the SCSI disk with the number.
func pathDir(n int) string {
	return fmt.Sprintf("sys/devices/pci0000:00/0000:00:01.0/0000:18:00.0/host0/target0:0:%d/0:0:%[1]d:0", n)
}

// serial is what the kernel read of the serial number of a SCSI disk.
func (m blocks) serial(n int, serial string) {
	m.File(pathDir(n)+"/vpd_pg80", string(append([]byte{0, 0x80, 0, byte(len(serial))}, serial...)))
}

func (m blocks) add(mount string) {
	m.mounts(strings.TrimSpace(string(m.MapFS["proc/1/mountinfo"].Data)) + "\n" + mount)
}

func TestClaimOfADriveThatNothingUses(t *testing.T) {
	m := spare(t)
	m.Files("sys/kernel/config/nvmet/subsystems/nqn/namespaces/1", map[string]string{"device_path": "/dev/sda", "enable": "0"})
	m.File("sys/kernel/config/target/core/alua/lu_gps/default/members", "")
	m.File("proc/77/comm", "dd")
	m.to("proc/77/fd/3", "/dev/sdb")
	m.to("proc/77/fd/4", "socket:[1]")
	volumes, err := claim(t, t.TempDir(), m, "sda")
	require.NoError(t, err)
	require.Len(t, volumes, 1)
	v := volumes[0]
	defer v.Close()
	assert.Equal(t, "sda", v.Name)
	assert.Equal(t, int64(driveSize), v.Size)
	assert.Equal(t, "naa.sda", v.ID)
	b := make([]byte, 8)
	_, err = v.ReadAt(b, 4096)
	require.NoError(t, err)
	assert.Equal(t, strings.Repeat("sda ", 2), string(b))
}

func TestClaimIsRefusedWhereADriveIsUsed(t *testing.T) {
	for says, use := range uses {
		t.Run(says, func(t *testing.T) {
			m := spare(t)
			use(m)
			_, err := claim(t, t.TempDir(), m, "sda")
			var used *host.InUseError
			require.ErrorAs(t, err, &used)
			assert.Contains(t, used.By, says)
			assert.False(t, used.Pods)
		})
	}
}

func TestNoUseHidesAnother(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		m := spare(t)
		for _, says := range rapid.SliceOfNDistinct(rapid.SampledFrom(slices.Sorted(maps.Keys(uses))), 1, len(uses), rapid.ID[string]).Draw(t, "uses") {
			uses[says](m)
		}
		n++
		_, err := claim(t, filepath.Join(dir, strconv.Itoa(n)), m, "sda")
		require.ErrorAs(t, err, new(*host.InUseError))
	})
}

// What pods use ends with the drain, as long as it is all.
func TestClaimSaysWherePodsAloneUseADrive(t *testing.T) {
	pods := func(m blocks) {
		m.add("30 28 8:1 / /var/lib/kubelet/pods/1/volumes/kubernetes.io~local-volume/data rw - ext4 /dev/sda1 rw")
		m.File("proc/78/comm", "mysqld")
		m.File("proc/78/cgroup", "0::/kubepods.slice/pod1.slice/cri-1.scope")
		m.to("proc/78/fd/3", "/dev/sda1")
	}
	m := spare(t)
	pods(m)
	_, err := claim(t, t.TempDir(), m, "sda")
	var used *host.InUseError
	require.ErrorAs(t, err, &used)
	assert.True(t, used.Pods)
	assert.Len(t, used.By, 2)
	for says, use := range uses {
		m := spare(t)
		use(m)
		pods(m)
		_, err := claim(t, t.TempDir(), m, "sda")
		require.ErrorAs(t, err, &used)
		assert.False(t, used.Pods, says)
	}
}

// opened are the devices of the machine in the directory that this process has open.
func opened(t *testing.T, dir string) (out []string) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range fds {
		if file, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && filepath.Dir(file) == filepath.Join(dir, "dev") {
			out = append(out, filepath.Base(file))
		}
	}
	slices.Sort(out)
	return out
}

// R003-43: a drive with two paths stores what it stores once. All paths are claimed, and one is enough to read it.
func TestADriveWithTwoPathsIsOneVolume(t *testing.T) {
	for id, change := range map[string]func(blocks){
		"naa.sda": func(m blocks) { m.File(pathDir(2)+"/wwid", "naa.sda") },
		"scsi.SEAGATE-ST16-S1": func(m blocks) {
			m.File(pathDir(0)+"/wwid", "")
			m.File(pathDir(2)+"/wwid", "")
			m.serial(0, "S1")
			m.serial(2, "S1")
		},
	} {
		t.Run(id, func(t *testing.T) {
			m, dir := spare(t), t.TempDir()
			m.disk("sdc", "sg2", "0:0:2:0", "8:320")
			m.File(pathDir(2)+"/block/sdc/size", "2048")
			change(m)
			_, err := claim(t, dir, m, "sg2")
			require.ErrorContains(t, err, "dev/sdc", "a path that cannot be claimed")
			assert.Empty(t, opened(t, dir))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "dev/sdc"), bytes.Repeat([]byte("sdc "), driveSize/4), 0o600))
			h, err := host.New(host.Config{FS: sysfs.DirFS(dir)})
			require.NoError(t, err)
			drive := inventory.Identity{Class: inventory.Disk, Node: "sg2", UniqueID: id}
			only := func(volumes []host.Volume, err error) host.Volume {
				t.Helper()
				require.NoError(t, err)
				require.Len(t, volumes, 1)
				assert.Equal(t, id, volumes[0].ID)
				assert.Equal(t, int64(driveSize), volumes[0].Size)
				return volumes[0]
			}
			v := only(h.Claim(t.Context(), drive))
			assert.Equal(t, "sdc", v.Name, "that of the path which is named")
			assert.Equal(t, []string{"sda", "sdc"}, opened(t, dir))
			require.NoError(t, v.Close())
			assert.Empty(t, opened(t, dir))
			require.NoError(t, os.Remove(filepath.Join(dir, "dev/sdc")))
			v = only(h.Volumes(t.Context(), drive))
			assert.Equal(t, "sda", v.Name)
			require.NoError(t, v.Close())
			require.NoError(t, os.Remove(filepath.Join(dir, "dev/sda")))
			_, err = h.Volumes(t.Context(), drive)
			require.ErrorContains(t, err, "dev/sda")

			require.NoError(t, os.RemoveAll(filepath.Join(dir, "sys")))
			m.Remove(pathDir(2)) // the path is gone
			drive.Node = "sg0"
			_, err = claim(t, dir, m, "sg0")
			require.NoError(t, err)
			v = only(h.Volumes(t.Context(), drive))
			assert.Equal(t, "sda", v.Name)
			require.NoError(t, v.Close())
		})
	}
}

// R003-43: a disk of which something cannot be read may be another path to the drive, unless the rest says that it is another drive.
func TestAPathThatCannotBeReadMayBeInUse(t *testing.T) {
	for serial, refused := range map[string]bool{"": true, "S1": true, "S2": false} {
		m := spare(t)
		m.disk("sdc", "sg2", "0:0:2:0", "8:320")
		delete(m.MapFS, pathDir(2)+"/wwid")
		delete(m.MapFS, pathDir(2)+"/model")
		m.File(pathDir(2)+"/model/is", "no file")
		m.serial(0, "S1")
		if serial != "" {
			m.serial(2, serial)
		}
		volumes, err := claim(t, t.TempDir(), m, "sda")
		if refused {
			require.ErrorContains(t, err, "it cannot be told whether the drive is in use: the SCSI disk 0:0:2:0 cannot be read", serial)
			continue
		}
		require.NoError(t, err, serial)
		require.NoError(t, volumes[0].Close())
	}
}

// What a drive holds is not what uses it: the data of a Ceph OSD that does not run is what is to go.
func TestClaimOfADriveWithOldData(t *testing.T) {
	m := spare(t)
	m.File("run/udev/data/b8:0", "E:ID_FS_TYPE=ceph_bluestore")
	volumes, err := claim(t, t.TempDir(), m, "sda")
	require.NoError(t, err)
	require.NoError(t, volumes[0].Close())
}

func TestClaimOfWhatCannotBeSeenIsRefused(t *testing.T) {
	m := spare(t)
	m.Files("sys/kernel/config/nvmet/subsystems/nqn/namespaces/1", map[string]string{"device_path": "/dev/disk/by-id/x", "enable": "1"})
	_, err := claim(t, t.TempDir(), m, "sda")
	require.ErrorContains(t, err, "it cannot be told whether the drive is in use")
	assert.NotErrorAs(t, err, new(*host.InUseError))
	_, err = claim(t, t.TempDir(), spare(t), "sdz")
	require.Error(t, err)
}
