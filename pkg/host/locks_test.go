package host_test

import (
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/luks"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

const cryptID = "CRYPT-LUKS2-6f4c1d2e0b1a4c7e9a551f2e3d4c5b6a-root"

// luksHeader is a header that cryptsetup wrote.
func luksHeader(t *testing.T) string {
	t.Helper()
	f, err := os.Open("../luks/testdata/systemd.header.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	data, err := io.ReadAll(z)
	require.NoError(t, err)
	return string(data)
}

func TestLocksOfTheDisksThatCarryTheNode(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(blocks, string)
		want string
		err  string
	}{
		"no encryption": {func(m blocks, _ string) { m.mounts("29 1 8:1 / / rw - ext4 /dev/sda1 rw") }, "", ""},
		"the root": {func(m blocks, header string) {
			m.crypt(header, "sda1")
			m.mounts("29 1 253:0 / / rw - ext4 /dev/mapper/root rw")
		}, "sda1", ""},
		"below a volume": {func(m blocks, header string) {
			m.crypt(header, "sda1")
			m.over("dm-1", "253:1", map[string]string{"dm/name": "vg-root", "dm/uuid": "LVM-1"}, "dm-0")
			m.mounts("29 1 253:1 / / rw - ext4 /dev/mapper/vg-root rw")
		}, "sda1", ""},
		"with checksums": {func(m blocks, header string) {
			m.File("dev/sda1", header)
			m.over("dm-1", "253:1", map[string]string{"dm/name": "root_dif", "dm/uuid": "CRYPT-SUBDEV-1"}, "sda1")
			m.over("dm-0", "253:0", map[string]string{"dm/name": "root", "dm/uuid": cryptID}, "dm-1")
			m.mounts("29 1 253:0 / / rw - ext4 /dev/mapper/root rw")
		}, "sda1", ""},
		"what a boot mounts": {func(m blocks, header string) {
			m.crypt(header, "sda1")
			m.mounts("28 1 8:0 / / rw - ext4 /dev/sda rw\n29 28 253:0 / /var/log rw - ext4 /dev/mapper/root rw")
		}, "sda1", ""},
		"swap space": {func(m blocks, header string) {
			m.crypt(header, "sda1")
			m.File("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/dm-0 partition 999 0 -2")
		}, "sda1", ""},
		"a partition of an array": {func(m blocks, header string) {
			m.crypt(header, "sda1")
			m.array("md0", "9:0", nil, "dm-0")
			m.Files("sys/devices/virtual/block/md0/md0p1", map[string]string{"dev": "259:0", "partition": "1"})
			m.Link("sys/class/block/md0p1", "sys/devices/virtual/block/md0/md0p1")
			m.mounts("29 1 259:0 / / rw - ext4 /dev/md0p1 rw")
		}, "sda1", ""},
		"what pods mount": {func(m blocks, _ string) {
			m.crypt("", "sda1")
			m.mounts("29 1 253:0 / /var/lib/kubelet/pods/1/volumes/x rw - ext4 /dev/mapper/root rw")
		}, "", ""},
		"nothing mounts it": {func(m blocks, _ string) { m.crypt("", "sda1") }, "", ""},
		"a root that cannot be seen": {func(m blocks, header string) {
			m.crypt(header, "sda1")
			m.mounts("29 1 0:31 / / rw - overlay root rw,lowerdir=/gone")
		}, "sda1", ""},
		"a header apart": {func(m blocks, _ string) {
			m.crypt("", "sda1")
			m.mounts("29 1 253:0 / / rw - ext4 /dev/mapper/root rw")
		}, "", "sda1"},
		"another header": {func(m blocks, header string) {
			m.File("dev/sda1", header)
			m.over("dm-0", "253:0", map[string]string{"dm/name": "root", "dm/uuid": "CRYPT-LUKS2-00-root"}, "sda1")
			m.mounts("29 1 253:0 / / rw - ext4 /dev/mapper/root rw")
		}, "", "not that of dm-0"},
	} {
		t.Run(name, func(t *testing.T) {
			m := blocks{sysfstest.NewMachine()}
			m.disk("sda", "sg0", "0:0:0:0", "8:0", "sda1")
			c.set(m, luksHeader(t))
			got, tpm, err := newHost(t, m, &reader{}).Locks(t.Context())
			assert.True(t, tpm, "whether there is one is not known")
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			if c.want == "" {
				assert.Empty(t, got)
				return
			}
			assert.NotEmpty(t, got[c.want].Ways)
		})
	}
}

// crypt opens an encrypted device as the root.
func (m blocks) crypt(header, device string) {
	m.File("dev/"+device, header)
	m.over("dm-0", "253:0", map[string]string{"dm/name": "root", "dm/uuid": cryptID}, device)
}

func TestAMachineWithoutATPM(t *testing.T) {
	for name, c := range map[string]struct {
		set func(blocks)
		tpm bool
	}{
		"a kernel that knows of no TPM at all": {func(blocks) {}, true},
		"none":                                 {func(m blocks) { m.MapFS["sys/class/tpm"] = &fstest.MapFile{Mode: fs.ModeDir | 0o755} }, false},
		"one":                                  {func(m blocks) { m.Link("sys/class/tpm/tpm0", "sys/devices/LNXSYSTM:00/tpm/tpm0") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := blocks{sysfstest.NewMachine()}
			m.disk("sda", "sg0", "0:0:0:0", "8:0", "sda1")
			m.crypt("", "sda1")
			m.mounts("29 1 253:0 / / rw - ext4 /dev/mapper/root rw")
			c.set(m)
			_, tpm, err := newHost(t, m, &reader{}).Locks(t.Context())
			require.Error(t, err)
			assert.Equal(t, c.tpm, tpm)
		})
	}
}

// A person opens it, as far as is known: nothing is lost, and its prompt takes time.
func TestAnotherFormatIsOpenedByAPerson(t *testing.T) {
	m := blocks{sysfstest.NewMachine()}
	m.disk("sda", "sg0", "0:0:0:0", "8:0", "sda1")
	m.over("dm-0", "253:0", map[string]string{"dm/name": "root", "dm/uuid": "CRYPT-LUKS1-6f4c-root"}, "sda1")
	m.mounts("29 1 253:0 / / rw - ext4 /dev/mapper/root rw")
	got, _, err := newHost(t, m, &reader{}).Locks(t.Context())
	require.NoError(t, err)
	assert.Empty(t, got["dm-0"].Lost([]int{0, 7}))
	assert.Equal(t, luks.Header{Keys: 1}, got["dm-0"])
}
