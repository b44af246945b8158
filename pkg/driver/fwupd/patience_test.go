package fwupd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func failed(message string) command.Result {
	return command.Result{ExitCode: 1, Stdout: []byte(`{"Error": {"Domain": "FwupdError", "Code": 10, "Message": "` + message + `"}}`)}
}

// beside plays another fwupdtool that runs while the driver calls its own as often as given. Each pause brings its end nearer.
func (f fake) beside(t *testing.T, d *Driver, pauses int) *int {
	t.Helper()
	inner := d.runner.Runner
	d.runner.Runner = runnerFunc(func(ctx context.Context, c command.Command) (command.Result, error) {
		if pauses > 0 {
			return failed("Failed to lock: another instance has locked /run/lock/fwupdtool"), nil
		}
		return inner.Run(ctx, c)
	})
	d.WaitBy(func(ctx context.Context, _ time.Duration) error {
		pauses--
		return ctx.Err()
	})
	return &pauses
}

type runnerFunc func(context.Context, command.Command) (command.Result, error)

func (f runnerFunc) Run(ctx context.Context, c command.Command) (command.Result, error) {
	return f(ctx, c)
}

func TestWaitsForOtherFwupdtool(t *testing.T) {
	f := newTool(t)
	f["install"] = command.Result{}
	for name, run := range map[string]func(d *Driver) error{
		"a scan": func(d *Driver) error {
			_, fw, err := d.Inspect(t.Context(), id)
			assert.Equal(t, inventory.Version("2.10.2"), fw.Stored)
			return err
		},
		"a preflight": func(d *Driver) error { return d.Check(t.Context(), id, archive(t, "2.19.1")) },
		"a write": func(d *Driver) error {
			need, err := d.Write(t.Context(), id, archive(t, "2.19.1"), nil)
			assert.Equal(t, inventory.ActivateReboot, need)
			return err
		},
	} {
		d, _ := f.driver(t, host("2.10.2"))
		left := f.beside(t, d, 7)
		require.NoError(t, run(d), name)
		assert.Zero(t, *left, name)
	}
}

// What outlasts the patience is tried again later: nothing was written, and the archive is not to blame.
func TestSlowToolBlamesNoArchive(t *testing.T) {
	f := newTool(t)
	for name, run := range map[string]func(d *Driver) error{
		"a preflight": func(d *Driver) error { return d.Check(t.Context(), id, archive(t, "2.19.1")) },
		"a write":     func(d *Driver) error { _, err := d.Write(t.Context(), id, archive(t, "2.19.1"), nil); return err },
	} {
		d, _ := f.driver(t, host("2.10.2"))
		f.beside(t, d, 1000)
		err := run(d)
		require.ErrorIs(t, err, command.ErrBusy, name)
		require.ErrorContains(t, err, "another fwupdtool has run on this machine for 2m0s", name)
		assert.NotErrorAs(t, err, new(*driver.RejectedError), name)
	}
	d, _ := f.driver(t, host("2.10.2"))
	f.beside(t, d, 1000)
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the daemon stops"))
	_, _, err := d.Inspect(ended, id)
	require.ErrorIs(t, err, context.Canceled)
}

// Where no fwupdtool can run at all, the device says what to do.
func TestAMachineWithoutAPlaceForTheLockSaysSo(t *testing.T) {
	f := newTool(t)
	f["get-history"] = failed("Failed to lock: failed to open /var/run/fwupdtool")
	d, _ := f.driver(t, host("2.10.2"))
	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.Version("2.10.2"), fw.Running)
	assert.Contains(t, fw.ReadOnly, "mount the host's /run/lock writable")
	assert.Equal(t, inventory.RollbackNone, fw.Rollback)
}

// These have the code of an archive that fwupd does not support, and the next attempt may succeed.
func TestHostFaultBlamesNoArchive(t *testing.T) {
	f := newTool(t)
	for _, message := range []string{
		"Device a45df35a [System Firmware] does not currently allow updates: Not updatable as UEFI ESP partition not detected",
		"/boot/efi does not have sufficient space, required 98.6 MB, need additional 12.1 MB", "no ESP set",
		"Firmware version formats were different, device was 'number' and release is 'triplet'",
	} {
		f["install"] = failed(message)
		d, _ := f.driver(t, host("2.10.2"))
		_, err := d.Write(t.Context(), id, archive(t, "2.19.1"), nil)
		require.ErrorContains(t, err, message)
		assert.NotErrorAs(t, err, new(*driver.RejectedError), message)
	}
	f["install"] = failed("Archive is not for this device")
	d, _ := f.driver(t, host("2.10.2"))
	_, err := d.Write(t.Context(), id, archive(t, "2.19.1"), nil)
	require.ErrorAs(t, err, new(*driver.RejectedError))
}

// fwupd 2.1 installs an archive a second time where it is told the device, and refuses that.
func TestRefusedSecondInstall(t *testing.T) {
	f := newTool(t)
	r := commandtest.NewRunner(t, map[string]commandtest.Tool{
		"fwupdtool": func(_ context.Context, c command.Command) (command.Result, error) {
			if c.Argv[1] == "install" {
				f["get-history"] = command.Result{Stdout: []byte(golden(t, "get-history-2.0.20-needs-reboot.json"))}
				return failed("Device a45df35a [System Firmware] does not currently allow updates"), nil
			}
			return f[c.Argv[1]], nil
		},
	})
	need, err := New(r, host("2.10.2")).Write(t.Context(), id, archive(t, "2.19.1"), nil)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, need)
	_, err = New(r, host("2.10.2")).Write(t.Context(), id, archive(t, "2.20.0"), nil)
	require.ErrorContains(t, err, "does not currently allow updates", "another version waits")
}

// fwupd 2.0 and 2.1 look for the format of versions in different places.
func TestTellsBothFwupds(t *testing.T) {
	state := t.TempDir()
	d, r := newTool(t).driver(t, host("2.10.2"))
	_, _, err := d.Keep(state).Inspect(t.Context(), id)
	require.NoError(t, err)
	env := map[string]string{}
	for _, v := range r.Calls()[0].Env {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	assert.Equal(t, env["FWUPD_LOCALSTATEDIR"]+"/lib/fwupd/quirks.d", env["FWUPD_LOCALSTATEDIR_QUIRKS"])
	assert.Equal(t, "/var/lib/fwupd", env["STATE_DIRECTORY"], "the rest of the state stays where it was")
	text, err := os.ReadFile(filepath.Join(env["FWUPD_LOCALSTATEDIR_QUIRKS"], "version.quirk"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "["+guid+"]\nVersionFormat = ")
}
