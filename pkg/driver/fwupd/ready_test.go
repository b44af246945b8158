package fwupd

import (
	"encoding/binary"
	"encoding/hex"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// option is a boot option that boots a file from the partition of a GPT, after a node of the controller.
func option(t *testing.T, description, id string) []byte {
	t.Helper()
	le := binary.LittleEndian
	raw, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	require.NoError(t, err)
	drive := make([]byte, hardDriveLength)
	copy(drive, []byte{mediaNode, hardDrive, hardDriveLength, 0, 1})
	le.PutUint32(drive[signatureAt:], binary.BigEndian.Uint32(raw))
	le.PutUint16(drive[signatureAt+4:], binary.BigEndian.Uint16(raw[4:]))
	le.PutUint16(drive[signatureAt+6:], binary.BigEndian.Uint16(raw[6:]))
	copy(drive[signatureAt+8:], raw[8:])
	drive[40], drive[signatureKind] = 2, signatureIsGUID
	paths := append([]byte{2, 1, 12, 0, 0xd0, 0x41, 3, 0x0a, 0, 0, 0, 0}, drive...) // ACPI: PciRoot(0)
	paths = append(paths, endNode, 0xff, 4, 0)
	out := le.AppendUint32(nil, 1)
	out = le.AppendUint16(out, uint16(len(paths)))
	return append(append(out, text(description)...), paths...)
}

// text is a text as the firmware writes it.
func text(s string) []byte {
	var out []byte
	for _, u := range append(utf16.Encode([]rune(s)), 0) {
		out = binary.LittleEndian.AppendUint16(out, u)
	}
	return out
}

// Everything that decides is read before anything is tried: each machine says why it can be read and not updated, and neither a check
// nor a write runs a tool that writes.
func TestCapsulelessMachineSaysWhy(t *testing.T) {
	const full = 900 << 10
	for name, c := range map[string]struct {
		change func(*testing.T, fstest.MapFS)
		room   uint64
		reason Reason
		says   string
	}{
		"no variables": {func(_ *testing.T, f fstest.MapFS) {
			delete(f, "sys/firmware/efi/efivars/OsIndicationsSupported-"+globalVariable)
		}, 0, NoVariables, "mount efivarfs"},
		"a firmware that says nothing": {func(_ *testing.T, f fstest.MapFS) {
			delete(f, "sys/firmware/efi/efivars/OsIndicationsSupported-"+globalVariable)
			set(f, "BootCurrent", globalVariable, 1, 0)
		}, 0, NoCapsules, "use the vendor's own tool"},
		"a firmware without capsules on disk": {func(_ *testing.T, f fstest.MapFS) {
			set(f, "OsIndicationsSupported", globalVariable, 0x41, 0, 0, 0, 0, 0, 0, 0)
		}, 0, NoCapsules, "OsIndicationsSupported is 0x41, without 0x4"},
		"variables that cannot be set": {func(_ *testing.T, f fstest.MapFS) {
			mountAt(f, usual+"30 24 0:27 / /sys/firmware/efi/efivars ro,nosuid - efivarfs none rw\n")
		}, 0, VariablesReadOnly, "mount it writable"},
		"no partition":                  {func(_ *testing.T, f fstest.MapFS) { mountAt(f, "") }, 0, NoPartition, "mount it at /boot/efi"},
		"no list of mounts":             {func(_ *testing.T, f fstest.MapFS) { delete(f, "proc/self/mountinfo") }, 0, NoPartition, "mount it at /boot/efi"},
		"a partition that is read-only": {func(_ *testing.T, f fstest.MapFS) { mountAt(f, strings.Replace(usual, "rw", "ro", 1)) }, 0, PartitionReadOnly, "mount it writable on the host"},
		"several partitions": {func(_ *testing.T, f fstest.MapFS) {
			mountAt(f, usual+"99 27 8:17 / /efi rw - vfat /dev/sdb1 rw\n")
		}, 0, SeveralPartitions, "/boot/efi and /efi are mounted"},
		"several, and a boot option that makes no sense": {func(_ *testing.T, f fstest.MapFS) {
			mountAt(f, usual+"99 27 8:17 / /efi rw - vfat /dev/sdb1 rw\n")
			set(f, "BootCurrent", globalVariable, 3, 0)
			set(f, "Boot0003", globalVariable, 1, 2, 3)
		}, 0, SeveralPartitions, "read Boot0003: parse boot option"},
		"another partition, as the boot loader says": {func(_ *testing.T, f fstest.MapFS) {
			entry(f, "8:1", idA, espType)
			set(f, "LoaderDevicePartUUID", loaderVariable, text(strings.ToUpper(idB))...)
		}, 0, OtherPartition, "booted from the EFI system partition " + idB},
		"another partition, as the firmware says": {func(t *testing.T, f fstest.MapFS) {
			entry(f, "8:1", idA, espType)
			set(f, "BootCurrent", globalVariable, 0x1a, 0)
			set(f, "Boot001A", globalVariable, option(t, "debian", idB)...)
		}, 0, OtherPartition, "booted from the EFI system partition " + idB},
		"a full partition": {func(*testing.T, fstest.MapFS) {}, full, PartitionFull, "/boot/efi has 900 KiB left"},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := host("2.10.2")
			c.change(t, fsys)
			d, r := newTool(t).driver(t, fsys)
			if c.room != 0 {
				d.room = func(string) (uint64, error) { return c.room, nil }
			}
			_, fw, err := d.Inspect(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, inventory.Version("2.10.2"), fw.Running, "it is read all the same")
			assert.True(t, strings.HasPrefix(fw.ReadOnly, string(c.reason)+": "), fw.ReadOnly)
			assert.Contains(t, fw.ReadOnly, c.says)
			assert.LessOrEqual(t, len(fw.ReadOnly), 256, "the API cuts what is longer")
			assert.Equal(t, inventory.RollbackNone, fw.Rollback)
			assert.Equal(t, fw.ReadOnly, fw.RollbackMessage)

			_, written := d.Write(t.Context(), id, archive(t, "2.19.1"), nil)
			for _, err := range []error{d.Check(t.Context(), id, archive(t, "2.19.1")), written} {
				require.ErrorContains(t, err, c.says)
				if c.reason.lasting() {
					assert.ErrorAs(t, err, new(*driver.RejectedError))
				} else {
					require.ErrorContains(t, err, "nothing was written")
					assert.NotErrorAs(t, err, new(*driver.RejectedError), "it may be mended")
				}
			}
			for _, call := range r.Calls() {
				assert.Equal(t, "get-history", call.Argv[1], "no tool is asked to do what cannot work")
			}
		})
	}
}

// A machine without an ESRT says what its firmware is.
func TestMachineWithoutESRTSaysWhy(t *testing.T) {
	bios := func() fstest.MapFS {
		return fstest.MapFS{"sys/class/dmi/id/bios_version": {Data: []byte("2022.11-6\n")}}
	}
	firmware := bios()
	firmware["sys/firmware/efi/fw_platform_size"] = &fstest.MapFile{Data: []byte("64\n")}
	virtual := bios()
	set(virtual, "OsIndicationsSupported", globalVariable, 0x41, 0, 0, 0, 0, 0, 0, 0)
	for says, fsys := range map[string]fs.FS{
		"NoUEFI: the machine did not boot through UEFI": bios(),
		"NoESRT: the firmware has no ESRT":              firmware,
		"(OsIndicationsSupported is 0x41)":              virtual,
	} {
		d, r := newTool(t).driver(t, fsys)
		_, fw, err := d.Inspect(t.Context(), id)
		require.NoError(t, err)
		assert.Contains(t, fw.ReadOnly, says)
		assert.LessOrEqual(t, len(fw.ReadOnly), 256)
		require.ErrorAs(t, d.Check(t.Context(), id, archive(t, "2.19.1")), new(*driver.RejectedError))
		_, err = d.Write(t.Context(), id, archive(t, "2.19.1"), nil)
		require.ErrorIs(t, err, driver.ErrNotSupported)
		assert.Empty(t, r.Calls(), "no tool is asked")
	}
	d, _ := newTool(t).driver(t, unreadable{virtual, "OsIndicationsSupported"})
	_, _, err := d.Inspect(t.Context(), id)
	require.ErrorIs(t, err, syscall.EIO)
}

// The kernel's lockdown under Secure Boot restricts neither variables nor file systems.
func TestLockdownAllowsCapsules(t *testing.T) {
	for _, level := range []string{"integrity", "confidentiality"} {
		fsys := host("2.10.2")
		fsys["sys/kernel/security/lockdown"] = &fstest.MapFile{Data: []byte(strings.Replace("none integrity confidentiality\n", level, "["+level+"]", 1))}
		set(fsys, "SecureBoot", globalVariable, 1)
		f := newTool(t)
		d, r := f.driver(t, fsys)
		_, fw, err := d.Inspect(t.Context(), id)
		require.NoError(t, err)
		assert.Empty(t, fw.ReadOnly)
		require.NoError(t, d.Check(t.Context(), id, archive(t, "2.19.1")))
		_, err = d.Write(t.Context(), id, archive(t, "2.19.1"), nil)
		require.NoError(t, err)
		calls := r.Calls()
		assert.Equal(t, command.Write, calls[len(calls)-1].Kind)
	}
}

func TestTheToolIsToldThePartitionThatWasBootedFrom(t *testing.T) {
	for name, told := range map[string]func(fstest.MapFS){
		"by the boot loader": func(f fstest.MapFS) { set(f, "LoaderDevicePartUUID", loaderVariable, text(strings.ToUpper(idB))...) },
		"by the firmware": func(f fstest.MapFS) {
			set(f, "BootCurrent", globalVariable, 1, 0)
			set(f, "Boot0001", globalVariable, option(t, "Linux Boot Manager", idB)...)
		},
	} {
		fsys := host("2.10.2")
		mountAt(fsys, usual+"99 27 8:17 / /efi rw - vfat /dev/sdb1 rw\n")
		entry(fsys, "8:1", idA, espType)
		entry(fsys, "8:17", idB, espType)
		told(fsys)
		d, r := newTool(t).driver(t, fsys)
		_, err := d.Write(t.Context(), id, archive(t, "2.19.1"), nil)
		require.NoError(t, err, name)
		calls := r.Calls()
		assert.Contains(t, calls[len(calls)-1].Env, "FWUPD_UEFI_ESP_PATH=/efi", name)
	}
}

// A capsule needs room, and how much is known when the archive is.
func TestThereIsRoomForTheArchive(t *testing.T) {
	d, _ := newTool(t).driver(t, host("2.10.2"))
	d.room = func(path string) (uint64, error) {
		assert.Equal(t, "/boot/efi", path)
		return 3 << 20, nil
	}
	img := archive(t, "2.19.1")
	require.NoError(t, d.Check(t.Context(), id, img))
	_, err := d.ready(4 << 20)
	require.ErrorContains(t, err, "PartitionFull: the EFI system partition at /boot/efi has 3072 KiB left, and fwupd needs at least 5120 KiB")
	d.room = func(string) (uint64, error) { return 0, syscall.EIO }
	_, _, err = d.Inspect(t.Context(), id)
	require.ErrorIs(t, err, syscall.EIO, "what cannot be read is an error")
}

// automount is a line of an automount of systemd in the list of mounts.
const automount = "97 27 0:32 / /boot/efi rw,relatime shared:5 - autofs systemd-1 rw,fd=50,pgrp=1,timeout=120,minproto=5,maxproto=5,direct,pipe_ino=14321\n"

// A partition that systemd mounts when somebody looks there, and takes away when nobody has for two minutes, is there at every scan.
func TestAnAutomountedPartitionIsThereAtEveryScan(t *testing.T) {
	fsys := host("2.10.2")
	mountAt(fsys, automount)
	d, r := newTool(t).driver(t, fsys)
	looks := 0
	d.room = func(path string) (uint64, error) {
		assert.Equal(t, "/boot/efi", path)
		looks++
		mountAt(fsys, automount+usual)
		return 1 << 30, nil
	}
	for range 3 {
		_, fw, err := d.Inspect(t.Context(), id)
		require.NoError(t, err)
		assert.Empty(t, fw.ReadOnly)
		_, fw, err = d.Inspect(t.Context(), id)
		require.NoError(t, err)
		assert.Empty(t, fw.ReadOnly, "while it is mounted")
		mountAt(fsys, automount) // nobody has looked there for two minutes
	}
	assert.Equal(t, 9, looks, "it is woken where it sleeps, and asked for its room")
	require.NoError(t, d.Check(t.Context(), id, archive(t, "2.19.1")))
	mountAt(fsys, automount)
	_, err := d.Write(t.Context(), id, archive(t, "2.19.1"), nil)
	require.NoError(t, err)
	calls := r.Calls()
	assert.Contains(t, calls[len(calls)-1].Env, "FWUPD_UEFI_ESP_PATH=/boot/efi")

	// Where the container does not get what systemd mounts, or there is nothing to mount.
	mountAt(fsys, automount)
	d.room = func(string) (uint64, error) { return 0, syscall.ENODEV }
	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Contains(t, fw.ReadOnly, "NoPartition: the automount at /boot/efi mounts no EFI system partition")
	assert.LessOrEqual(t, len(fw.ReadOnly), 256)

	// A partition in one usual place, and the one that counts asleep in another.
	mountAt(fsys, strings.Replace(automount, "/boot/efi", "/efi", 1)+"99 27 8:3 / /boot rw - vfat /dev/sda3 rw\n")
	entry(fsys, "8:3", idA, extended)
	entry(fsys, "8:1", idB, espType)
	d.room = func(path string) (uint64, error) {
		if path == "/efi" {
			mountAt(fsys, "98 27 8:1 / /efi rw - vfat /dev/sda1 rw\n99 27 8:3 / /boot rw - vfat /dev/sda3 rw\n")
		}
		return 1 << 30, nil
	}
	esp, err := d.ready(0)
	require.NoError(t, err)
	assert.Equal(t, "/efi", esp.Path)
}

// An automount whose disk is gone keeps who looks there waiting for a minute and a half.
func TestAnAutomountThatHangsDoesNotHideTheVersion(t *testing.T) {
	fsys := host("2.10.2")
	mountAt(fsys, automount)
	d, _ := newTool(t).driver(t, fsys)
	var looks atomic.Int32
	hangs := make(chan struct{})
	d.room = func(string) (uint64, error) { looks.Add(1); <-hangs; return 0, syscall.ENODEV }
	d.patience = 0
	for range 3 {
		_, fw, err := d.Inspect(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, inventory.Version("2.10.2"), fw.Running)
		assert.Contains(t, fw.ReadOnly, "NoPartition: the automount at /boot/efi mounts no EFI system partition")
	}
	assert.LessOrEqual(t, looks.Load(), int32(1), "nobody looks a second time while the first still waits")

	close(hangs)
	d.looking <- struct{}{} // the first has come back
	<-d.looking
	d.patience = time.Minute
	d.room = func(string) (uint64, error) { mountAt(fsys, automount+usual); return 1 << 30, nil }
	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Empty(t, fw.ReadOnly)
}

// unreadable is a machine whose variable cannot be read.
type unreadable struct {
	fstest.MapFS
	name string
}

func (u unreadable) Open(name string) (fs.File, error) {
	if strings.Contains(name, u.name+"-") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EIO}
	}
	return u.MapFS.Open(name)
}

func TestUnreadableVariableFails(t *testing.T) {
	d, _ := newTool(t).driver(t, unreadable{host("2.10.2"), "OsIndicationsSupported"})
	_, _, err := d.Inspect(t.Context(), id)
	require.ErrorIs(t, err, syscall.EIO)
	fsys := host("2.10.2")
	set(fsys, "OsIndicationsSupported", globalVariable, 4, 0, 0, 0)
	d, _ = newTool(t).driver(t, fsys)
	_, _, err = d.Inspect(t.Context(), id)
	require.ErrorContains(t, err, "read OsIndicationsSupported: 4 bytes, want 8")

	// Where one partition is mounted, nobody has to know what was booted from.
	d, _ = newTool(t).driver(t, unreadable{host("2.10.2"), "LoaderDevicePartUUID"})
	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Empty(t, fw.ReadOnly)
}

// fwupd knows machines whose capsules on disk do not work, and would take its other way without a word.
func TestRefusesOtherUpdateMethods(t *testing.T) {
	for _, way := range []string{"updated via NVRAM", "updated via grub"} {
		f := newTool(t)
		out := strings.Replace(golden(t, "get-devices-2.0.20.json"), "Updated via capsule-on-disk", way, 1)
		f["get-devices"] = command.Result{Stdout: []byte(out)}
		d, r := f.driver(t, host("2.10.2"))
		_, written := d.Write(t.Context(), id, archive(t, "2.19.1"), nil)
		for _, err := range []error{d.Check(t.Context(), id, archive(t, "2.19.1")), written} {
			require.ErrorAs(t, err, new(*driver.RejectedError))
			require.ErrorContains(t, err, way)
		}
		for _, call := range r.Calls() {
			assert.Equal(t, command.Query, call.Kind)
		}
	}
}

// A person looks the reason up in the documentation.
func TestEveryReasonIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/drivers/fwupd.md")
	require.NoError(t, err)
	for _, r := range []Reason{
		NoUEFI, NoTable, NoVariables, NoCapsules, VariablesReadOnly, NoPartition, OtherPartition, SeveralPartitions, PartitionReadOnly, PartitionFull, NoTool, NoLock,
	} {
		assert.Contains(t, string(page), "| `"+string(r)+"` |")
	}
}

func TestBootOptionNamesPartition(t *testing.T) {
	good := option(t, "debian", idA)
	got, err := parseBootOption(good)
	require.NoError(t, err)
	assert.Equal(t, idA, got)
	got, err = parseBootOption(append(append([]byte{1, 0, 0, 0, 4, 0}, text("PXE")...), endNode, 0xff, 4, 0))
	require.NoError(t, err)
	assert.Empty(t, got)
	for n := range good {
		if _, err := parseBootOption(good[:n]); err == nil {
			t.Errorf("the first %d bytes of an option are no option", n)
		}
	}
}

func FuzzParseBootOption(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 4, 0, 'P', 0, 0, 0, endNode, 0xff, 4, 0})
	f.Add([]byte{1, 0, 0, 0, 8, 0, 0, 0, 4, 1, 0, 0, 4, 1, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		if id, err := parseBootOption(b); err == nil && id != "" {
			_, err := parseGUID(id)
			assert.NoError(t, err)
		}
	})
}
