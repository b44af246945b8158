package fwupd

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

var id = inventory.Identity{Class: inventory.BIOS, UniqueID: "4c4c4544-0051-3510-8057-b4c04f000001"}

func host(bios string) fstest.MapFS {
	fsys := fstest.MapFS{"sys/class/dmi/id/bios_version": {Data: []byte(bios + "\n")}}
	for name, value := range map[string]string{
		"fw_class": guid, "fw_type": "1", "fw_version": "34209794",
		"lowest_supported_fw_version": "33554432", "last_attempt_version": "34209794", "last_attempt_status": "0",
	} {
		fsys["sys/firmware/efi/esrt/entries/entry0/"+name] = &fstest.MapFile{Data: []byte(value + "\n")}
	}
	set(fsys, "OsIndicationsSupported", globalVariable, 0x45, 0, 0, 0, 0, 0, 0, 0)
	mountAt(fsys, usual)
	return fsys
}

// set sets a variable of the firmware.
func set(fsys fstest.MapFS, name, guid string, value ...byte) {
	fsys["sys/firmware/efi/efivars/"+name+"-"+guid] = &fstest.MapFile{Data: append([]byte{6, 0, 0, 0}, value...)}
}

// usual is a partition in the usual place.
const usual = "98 27 8:1 / /boot/efi rw,relatime shared:5 - vfat /dev/sda1 rw,fmask=0077\n"

// mountAt makes lines of mountinfo the mounts beside the root file system.
func mountAt(fsys fstest.MapFS, lines string) {
	const root = "27 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw\n"
	fsys["proc/self/mountinfo"] = &fstest.MapFile{Data: []byte(root + lines)}
}

// fake plays fwupdtool. Answers are keyed by the command.
type fake map[string]command.Result

func newTool(t *testing.T) fake {
	return fake{
		"get-devices": {Stdout: []byte(golden(t, "get-devices-2.0.20.json"))},
		"get-history": {ExitCode: 2, Stdout: []byte(golden(t, "get-history-1.8.12-none.txt"))},
		"get-details": {Stdout: []byte(golden(t, "get-details-2.0.20-known-device.txt"))},
	}
}

func (f fake) driver(t *testing.T, fsys fs.FS) (*Driver, *commandtest.Runner) {
	r := commandtest.NewRunner(t, map[string]commandtest.Tool{
		"fwupdtool": func(_ context.Context, c command.Command) (command.Result, error) { return f[c.Argv[1]], nil },
	})
	return New(r, fsys), r
}

func archive(t *testing.T, version inventory.Version) driver.Image {
	path := filepath.Join(t.TempDir(), "firmware.cab")
	content := []byte("an archive")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return driver.Image{Path: path, Version: version, Digest: sha256.Sum256(content), Size: int64(len(content))}
}

func TestReadsTablesAndHistory(t *testing.T) {
	f := newTool(t)
	d, _ := f.driver(t, host("2.10.2"))
	got, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, guid, got.BoardID)
	assert.Equal(t, id.UniqueID, got.UniqueID)
	want := inventory.Firmware{
		Running: "2.10.2", Stored: "2.10.2", Activation: inventory.ActivateReboot, Format: inventory.FormatDotted,
		Rollback:        inventory.RollbackImage,
		RollbackMessage: "an archive of 2.10.2 is needed, and the new firmware may raise the lowest version it accepts",
	}
	assert.Equal(t, want, fw)

	f["get-history"] = command.Result{Stdout: []byte(golden(t, "get-history-2.0.20-needs-reboot.json"))}
	_, fw, err = d.Inspect(t.Context(), id)
	require.NoError(t, err)
	want.Stored = "2.19.1"
	assert.Equal(t, want, fw)
}

func TestVersionsThatAreNotDottedNumbersAreNotOrdered(t *testing.T) {
	for _, v := range []string{"A09", "U30 v2.62 (03/08/2022)", "1.2.3-4"} {
		d, _ := newTool(t).driver(t, host(v))
		_, fw, err := d.Inspect(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, inventory.Version(v), fw.Running)
		assert.Equal(t, inventory.FormatPlain, fw.Format)
	}
}

func TestRefusingFirmwareSaysWhy(t *testing.T) {
	fsys := host("2.10.2")
	fsys["sys/firmware/efi/esrt/entries/entry0/last_attempt_status"] = &fstest.MapFile{Data: []byte("5\n")}
	f := newTool(t)
	f["get-history"] = command.Result{Stdout: []byte(golden(t, "get-history-2.0.20-failed.json"))}
	d, _ := f.driver(t, fsys)
	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Contains(t, fw.LastAttempt, "authentication failed")
	assert.False(t, fw.Pending())
}

func TestAMachineWithoutUEFIIsReadWithoutAnyTool(t *testing.T) {
	d, r := newTool(t).driver(t, fstest.MapFS{"sys/class/dmi/id/bios_version": {Data: []byte("1.16.3-debian-1.16.3-2\n")}})
	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.Version("1.16.3-debian-1.16.3-2"), fw.Running)
	assert.Contains(t, fw.ReadOnly, "UEFI")
	assert.ErrorAs(t, d.Check(t.Context(), id, archive(t, "2.19.1")), new(*driver.RejectedError))
	_, err = d.Write(t.Context(), id, archive(t, "2.19.1"), nil)
	require.ErrorIs(t, err, driver.ErrNotSupported)
	assert.Empty(t, r.Calls())
}

// forbidden is a tree whose ESRT only root may read.
type forbidden struct{ fstest.MapFS }

func (f forbidden) Open(name string) (fs.File, error) {
	if strings.Contains(name, "esrt/entries/entry") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return f.MapFS.Open(name)
}

func TestReadOnlyWithoutRoot(t *testing.T) {
	d, _ := newTool(t).driver(t, forbidden{host("2.10.2")})
	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Contains(t, fw.ReadOnly, "root")
}

// absent is a machine without fwupdtool.
type absent struct{}

func (absent) Run(_ context.Context, c command.Command) (command.Result, error) {
	return command.Result{}, &command.Error{Argv: c.Argv, ExitCode: -1, Err: command.ErrNotFound}
}

func TestReadOnlyWithoutFwupdtool(t *testing.T) {
	_, fw, err := New(absent{}, host("2.10.2")).Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Contains(t, fw.ReadOnly, "fwupdtool")
}

// refusing is a machine whose fwupdtool is too old.
type refusing struct{ t *testing.T }

func (r refusing) Run(_ context.Context, c command.Command) (command.Result, error) {
	r.t.Helper()
	tools, err := command.NewExecRunner(command.Config{Path: []string{"/nowhere"}, Refused: map[string]error{tool: errors.New("it is older than 2.0.0; install 2.0.20")}})
	require.NoError(r.t, err)
	return tools.Run(r.t.Context(), c)
}

func TestWithATooOldFwupdtoolTheBIOSIsReadOnlyAndSaysWhatToInstall(t *testing.T) {
	_, fw, err := New(refusing{t}, host("2.10.2")).Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, "NoTool: fwupdtool: tool not used: it is older than 2.0.0; install 2.0.20", fw.ReadOnly)
	assert.Equal(t, inventory.RollbackNone, fw.Rollback)
}

func TestCheck(t *testing.T) {
	f := newTool(t)
	d, _ := f.driver(t, host("2.10.2"))
	require.NoError(t, d.Check(t.Context(), id, archive(t, "2.19.1")))

	rejected := func(name, contains string, err error) {
		t.Helper()
		require.ErrorAs(t, err, new(*driver.RejectedError), name)
		assert.ErrorContains(t, err, contains, name)
	}
	rejected("another version", "2.19.1", d.Check(t.Context(), id, archive(t, "2.19.2")))

	// What the machine calls its firmware is what is read back after the update.
	named, _ := f.driver(t, host("N2IET98W (1.76 )"))
	rejected("a machine that names its firmware otherwise", "N2IET98W", named.Check(t.Context(), id, archive(t, "2.19.1")))

	f["get-details"] = command.Result{Stdout: []byte(golden(t, "get-details-1.8.12-unknown-device.txt"))}
	other := host("2.10.2")
	od, _ := f.driver(t, other)
	rejected("another board", guid, od.Check(t.Context(), id, archive(t, "2.4.0")))

	f["get-details"] = command.Result{ExitCode: 1, Stdout: []byte(golden(t, "get-details-1.8.12-junk.txt"))}
	rejected("no cabinet", "not of cabinet format", d.Check(t.Context(), id, archive(t, "2.19.1")))

	old := strings.ReplaceAll(golden(t, "get-details-2.0.20-known-device.txt"), "2.19.1", "1.9.9")
	f["get-details"] = command.Result{Stdout: []byte(old)}
	rejected("below the lowest version", "2.0.0", d.Check(t.Context(), id, archive(t, "1.9.9")))

	number := strings.ReplaceAll(golden(t, "get-devices-2.0.20.json"), `"VersionLowest" : "2.0.0"`, `"VersionLowest" : "33554432"`)
	f["get-devices"] = command.Result{Stdout: []byte(number)}
	require.NoError(t, d.Check(t.Context(), id, archive(t, "1.9.9")), "a number is not comparable with a triplet")

	locked := strings.ReplaceAll(golden(t, "get-devices-2.0.20.json"), `"updatable",`, ``)
	f["get-devices"] = command.Result{Stdout: []byte(locked)}
	err := d.Check(t.Context(), id, archive(t, "1.9.9"))
	require.ErrorContains(t, err, "not updatable")
	assert.NotErrorAs(t, err, new(*driver.RejectedError))
}

func TestWriteInstallsForTheDeviceThatHasTheGUID(t *testing.T) {
	f := newTool(t)
	d, r := f.driver(t, host("2.10.2"))
	img := archive(t, "2.19.1")
	need, err := d.Write(t.Context(), id, img, nil)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, need)
	calls := r.Calls()
	last := calls[len(calls)-1]
	assert.Equal(t, "fwupdtool install "+img.Path+" a45df35ac0e948ee180fe216a5f703f32dda163f --json --no-reboot-check --plugins uefi_capsule", last.String())
	assert.Equal(t, command.Write, last.Kind)
}

func TestWriteIsClassified(t *testing.T) {
	for name, c := range map[string]struct {
		result   command.Result
		rejected bool
	}{
		"a bad file":       {reply(1, "7", "bad"), true},
		"a bad signature":  {reply(1, "11", "bad"), true},
		"too old":          {reply(1, "1", "bad"), true},
		"no power supply":  {reply(1, "12", "bad"), false},
		"another pending":  {reply(1, "3", "bad"), false},
		"the same version": {reply(1, "2", "bad"), false},
		"a crash":          {command.Result{ExitCode: 139, Stderr: []byte("bad")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTool(t)
			f["install"] = c.result
			d, _ := f.driver(t, host("2.10.2"))
			_, err := d.Write(t.Context(), id, archive(t, "2.19.1"), nil)
			require.ErrorContains(t, err, "bad")
			var rejected *driver.RejectedError
			var failed *command.Error
			if c.rejected {
				assert.ErrorAs(t, err, &rejected)
			} else {
				assert.ErrorAs(t, err, &failed)
			}
		})
	}
}

func TestOnlyABootActivatesABIOS(t *testing.T) {
	d, _ := newTool(t).driver(t, host("2.10.2"))
	for _, kind := range []inventory.Activation{inventory.ActivateDeviceReset, inventory.ActivateDriverReload, inventory.ActivateReboot} {
		_, err := d.Activate(t.Context(), id, kind)
		assert.ErrorIs(t, err, driver.ErrNotSupported)
	}
	assert.Equal(t, driver.SupportMainline, d.Support(id))
	assert.Equal(t, driver.SupportNone, d.Support(inventory.Identity{Class: inventory.NIC}))
}
