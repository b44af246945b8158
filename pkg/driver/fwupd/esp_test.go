package fwupd

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

const (
	idA = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
	idB = "11111111-2222-3333-4444-555555555555"
	// extended is the type of a boot loader's partition beside an EFI system partition (XBOOTLDR).
	extended = "bc13c2ff-59e6-4262-a352-b275fd6f7172"
)

// entry is what udev found about a partition.
func entry(fsys fstest.MapFS, number, id, kind string) {
	fsys["run/udev/data/b"+number] = &fstest.MapFile{Data: []byte("S:disk/by-uuid/1\nE:ID_PART_ENTRY_UUID=" + id + "\nE:ID_PART_ENTRY_TYPE=" + kind + "\n")}
}

func TestFindsPartitionInMounts(t *testing.T) {
	const both = "98 27 8:1 / /efi rw - vfat /dev/sda1 rw\n99 27 8:3 / /boot rw - vfat /dev/sda3 rw\n"
	for name, c := range map[string]struct {
		lines  string
		change func(fstest.MapFS)
		booted string
		path   string
		ro     bool
		reason Reason
	}{
		"the usual place": {lines: usual, path: "/boot/efi"},
		"in a pod": {
			lines: "98 27 8:1 / /host/boot/efi ro - vfat /dev/sda1 rw\n99 27 8:1 / /boot/efi rw - vfat /dev/sda1 rw\n", path: "/boot/efi",
		},
		"beside a mount whose source is an empty text": {lines: "97 27 0:45 / /srv rw - tmpfs  rw\n" + usual, path: "/boot/efi"},
		"below the host's root":                        {lines: "98 27 8:1 / /host/efi rw master:1 - vfat /dev/nvme0n1p1 rw\n", path: "/host/efi"},
		"read-only":                                    {lines: "98 27 8:1 / /boot/efi rw - vfat /dev/sda1 ro,errors=remount-ro\n", path: "/boot/efi", ro: true},
		"read-only by its mount":                       {lines: "98 27 8:1 / /boot ro,noexec - vfat /dev/sda1 rw\n", path: "/boot", ro: true},
		"beside a boot loader's": {
			lines: both, change: func(f fstest.MapFS) { entry(f, "8:1", idA, espType); entry(f, "8:3", idB, extended) }, path: "/efi",
		},
		"on a disk with an MBR": {
			lines: both, change: func(f fstest.MapFS) { entry(f, "8:1", "1a2b3c4d-01", "0xc"); entry(f, "8:3", "1a2b3c4d-03", "0xef") }, path: "/boot",
		},
		"the one of two that was booted from": {
			lines: both, change: func(f fstest.MapFS) { entry(f, "8:1", idA, espType); entry(f, "8:3", idB, espType) }, booted: idB, path: "/boot",
		},
		"booted from what the table calls otherwise": {
			lines: usual, change: func(f fstest.MapFS) { entry(f, "8:1", idA, extended) }, booted: idA, path: "/boot/efi",
		},
		"of a mirror, which has no entry in a table": {lines: "98 27 9:0 / /boot/efi rw - vfat /dev/md0 rw\n", booted: idB, path: "/boot/efi"},
		"nothing is mounted":                         {reason: NoPartition},
		"a stick":                                    {lines: "98 27 8:17 / /media/stick rw - vfat /dev/sdb1 rw\n", reason: NoPartition},
		"a directory of it":                          {lines: "98 27 8:1 /EFI /boot/efi rw - vfat /dev/sda1 rw\n", reason: NoPartition},
		"another file system":                        {lines: "98 27 8:1 / /boot rw - ext4 /dev/sda1 rw\n", reason: NoPartition},
		"a boot loader's alone":                      {lines: usual, change: func(f fstest.MapFS) { entry(f, "8:1", idA, extended) }, reason: NoPartition},
		"several of which nothing is known":          {lines: both, reason: SeveralPartitions},
		"several, and the boot was from the network": {
			lines: both, change: func(f fstest.MapFS) { entry(f, "8:1", idA, espType); entry(f, "8:3", idB, espType) }, reason: SeveralPartitions,
		},
		"not the one that was booted from": {
			lines: usual, change: func(f fstest.MapFS) { entry(f, "8:1", idA, espType) }, booted: idB, reason: OtherPartition,
		},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			mountAt(fsys, c.lines)
			if c.change != nil {
				c.change(fsys)
			}
			m, err := readMounts(fsys)
			require.NoError(t, err)
			got, err := chooseESP(m.partitions, c.booted)
			if c.reason != "" {
				var e *notReady
				require.ErrorAs(t, err, &e)
				assert.Equal(t, c.reason, e.reason)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.path, got.Path)
			assert.Equal(t, c.ro, got.ReadOnly)
		})
	}
	m, err := readMounts(fstest.MapFS{})
	require.NoError(t, err)
	assert.Empty(t, m.partitions, "without a list of mounts")
	for _, broken := range []string{"x", "98 27 8:1 / /boot/efi - vfat /dev/sda1 rw\n", "98 27 8:1 / /boot/efi rw - vfat\n"} {
		fsys := fstest.MapFS{}
		mountAt(fsys, broken)
		_, err := readMounts(fsys)
		require.ErrorContains(t, err, "parse mount", broken)
		d, _ := newTool(t).driver(t, withMounts(host("2.10.2"), broken))
		_, _, err = d.Inspect(t.Context(), id)
		require.ErrorContains(t, err, "parse mount", "what cannot be read is an error, not a machine without a partition")
	}
}

func withMounts(fsys fstest.MapFS, lines string) fstest.MapFS {
	mountAt(fsys, lines)
	return fsys
}

func FuzzParseMount(f *testing.F) {
	f.Add("98 27 8:1 / /boot/efi rw,relatime shared:58 - vfat /dev/sda1 rw,fmask=0077")
	f.Add(" - - - ")
	f.Fuzz(func(t *testing.T, line string) {
		if m, err := parseMount(line); err == nil && (m.Path == "" || m.Number == "" || m.kind == "") {
			t.Errorf("%q: %v", line, m)
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
