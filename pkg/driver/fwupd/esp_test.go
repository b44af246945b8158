package fwupd

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func mounts(lines string) fstest.MapFS {
	return fstest.MapFS{"proc/self/mountinfo": {Data: []byte(lines)}}
}

func TestThePartitionIsFoundAmongTheMounts(t *testing.T) {
	const root = "27 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw\n"
	for name, c := range map[string]struct {
		lines string
		want  partition
	}{
		"the usual place":       {root + "98 27 8:1 / /boot/efi rw shared:5 - vfat /dev/sda1 rw,fmask=0077\n", partition{"/boot/efi", false}},
		"in a pod":              {root + "98 27 8:1 / /host/boot/efi ro - vfat /dev/sda1 rw\n99 27 8:1 / /boot/efi rw - vfat /dev/sda1 rw\n", partition{"/boot/efi", false}},
		"below the host's root": {root + "98 27 8:1 / /host/efi rw master:1 - vfat /dev/nvme0n1p1 rw\n", partition{"/host/efi", false}},
		"beside a boot loader's": {
			root + "98 27 8:1 / /efi rw - vfat /dev/sda1 rw\n99 27 8:3 / /boot rw - vfat /dev/sda3 rw\n", partition{"/efi", false},
		},
		"read-only":              {root + "98 27 8:1 / /boot/efi rw - vfat /dev/sda1 ro,errors=remount-ro\n", partition{"/boot/efi", true}},
		"read-only by its mount": {root + "98 27 8:1 / /boot ro,noexec - vfat /dev/sda1 rw\n", partition{"/boot", true}},
	} {
		got, err := findESP(mounts(c.lines))
		require.NoError(t, err, name)
		assert.Equal(t, c.want, got, name)
	}
	for name, fsys := range map[string]fstest.MapFS{
		"nothing is mounted":    mounts(root),
		"a stick":               mounts("98 27 8:17 / /media/stick rw - vfat /dev/sdb1 rw\n"),
		"a directory of it":     mounts("98 27 8:1 /EFI /boot/efi rw - vfat /dev/sda1 rw\n"),
		"another file system":   mounts("98 27 8:1 / /boot rw - ext4 /dev/sda1 rw\n"),
		"no list of the mounts": {},
	} {
		_, err := findESP(fsys)
		assert.ErrorIs(t, err, errNoESP, name)
	}
	for _, broken := range []string{"x", "98 27 8:1 / /boot/efi - vfat /dev/sda1 rw\n", "98 27 8:1 / /boot/efi rw - vfat\n"} {
		_, err := findESP(mounts(broken))
		assert.ErrorContains(t, err, "parse mount", broken)
	}
}

func TestAReadOnlyPartitionIsSaid(t *testing.T) {
	fsys := host("2.10.2")
	fsys["proc/self/mountinfo"] = &fstest.MapFile{Data: []byte("98 27 8:1 / /boot/efi ro - vfat /dev/sda1 ro\n")}
	d, _ := newTool(t).driver(t, fsys)
	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, "the EFI system partition at /boot/efi is mounted read-only: mount it writable on the host", fw.ReadOnly)
	assert.Equal(t, inventory.RollbackNone, fw.Rollback)
}

func FuzzParseMount(f *testing.F) {
	f.Add("98 27 8:1 / /boot/efi rw,relatime shared:58 - vfat /dev/sda1 rw,fmask=0077")
	f.Add(" - - - ")
	f.Fuzz(func(t *testing.T, line string) {
		if p, ok, err := parseMount(line); ok && (err != nil || p.Path == "") {
			t.Errorf("%q: %v %v", line, p, err)
		}
	})
}

// The numbers of the formats are those of fwupd_version_format in libfwupd.
func TestTheFormatIsTheOneThatSpellsWhatTheMachineRuns(t *testing.T) {
	for _, c := range []struct {
		number  int
		running inventory.Version
		want    string
	}{
		{0x020a0002, "2.10.2", "triplet"},
		{0x00020a02, "2.10.2", "dell-bios"},
		{0x020a0200, "2.10.2", "dell-bios-msb"},
		{0x02030405, "2.3.4.5", "quad"},
		{0x00020036, "2.54", "pair"},
		{77, "77", "number"},
		{0x02000000, "2.0.0", ""}, // of two formats
		{0x020a0002, "N3HET77W (1.49 )", ""},
		{0x020a0002, "2.10.3", ""},
		{-1, "2.10.2", ""},
		{math.MaxUint32 + 1, "2.10.2", ""},
	} {
		assert.Equal(t, c.want, formatFor(&c.number, c.running), "%#x %s", c.number, c.running)
	}
	assert.Empty(t, formatFor(nil, "2.10.2"))
}
