package fwupd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
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
	} {
		f["install"] = failed(message)
		d, _ := f.driver(t, host("2.10.2"))
		_, err := d.Write(t.Context(), id, archive(t, "2.19.1"), nil)
		require.ErrorContains(t, err, message)
		assert.NotErrorAs(t, err, new(*driver.RejectedError), message)
	}
	f["install"] = failed("Firmware version formats were different, device was 'number' and release is 'triplet'")
	d, _ := f.driver(t, host("2.10.2"))
	_, err := d.Write(t.Context(), id, archive(t, "2.19.1"), nil)
	require.ErrorAs(t, err, new(*driver.RejectedError))
}
