package plugin_test

import (
	"context"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// calls are all a daemon asks of a plugin.
func calls(t *testing.T, d driver.Driver, id inventory.Identity) map[string]func() error {
	t.Helper()
	img := drivertest.NewImage(t, board, "2.0.0")
	archive := filepath.Join(t.TempDir(), "image")
	return map[string]func() error{
		"inspect":  func() error { _, _, err := d.Inspect(t.Context(), id); return err },
		"check":    func() error { return d.Check(t.Context(), id, img) },
		"archive":  func() error { return d.(driver.Archiver).Archive(t.Context(), id, archive) },
		"write":    func() error { _, err := d.Write(t.Context(), id, img, nil); return err },
		"activate": func() error { _, err := d.Activate(t.Context(), id, inventory.ActivateDeviceReset); return err },
	}
}

// A plugin that crashed or hangs is a device that cannot be read, and nothing else (F1).
func TestPluginThatDoesNotAnswerIsAFailedDevice(t *testing.T) {
	for name, c := range map[string]struct{ strike, recover func(process, machine) }{
		"killed": {
			func(p process, _ machine) { p.kill() },
			func(p process, m machine) { m.start(p.t, "1") },
		},
		"hanging": {
			func(p process, _ machine) { p.signal(syscall.SIGSTOP) },
			func(p process, _ machine) { p.signal(syscall.SIGCONT) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			p := m.start(t, "1")
			other := drivertest.NewSimulated("other")
			otherID := inventory.Identity{Class: inventory.NIC, UniqueID: "other", VendorID: "8086", BoardID: "x"}
			other.Add(otherID, inventory.Firmware{Running: "1"})
			directory := m.directory()
			refresh(t, directory)
			set := append(directory.Drivers(m.runner), other)
			_, id := simulated(inventory.Firmware{})
			drv := installed(t, m, directory, id)
			for call, do := range calls(t, drv, id) {
				require.NoError(t, do(), call)
			}

			c.strike(p, m)
			var all sync.WaitGroup
			for call, do := range calls(t, drv, id) {
				all.Go(func() {
					err := do()
					assert.ErrorIs(t, err, plugin.ErrUnavailable, call)
					assert.ErrorContains(t, err, "plugin acme-nic", call)
				})
			}
			all.Wait()
			refresh(t, directory)
			still, err := set.For(id)
			require.NoError(t, err)
			assert.Equal(t, "acme-nic", still.Name(), "no other driver takes the device meanwhile")
			good, err := set.For(otherID)
			require.NoError(t, err)
			_, _, err = good.Inspect(t.Context(), otherID)
			require.NoError(t, err)

			c.recover(p, m)
			for call, do := range calls(t, drv, id) {
				require.NoError(t, do(), call)
			}
		})
	}
}

// begun begins a write that hangs in the plugin.
func begun(t *testing.T, p process, m machine, d driver.Driver, id inventory.Identity) (ended chan error) {
	t.Helper()
	p.signal(syscall.SIGUSR1)
	require.Eventually(t, func() bool { return len(glob(t, hangs(socket(m.dir, "acme-nic")))) > 0 }, patience, tick)
	ended = make(chan error, 1)
	img := drivertest.NewImage(t, board, "3.0.0")
	moved := make(chan struct{})
	begins := sync.OnceFunc(func() { close(moved) })
	go func() {
		_, err := d.Write(context.Background(), id, img, func(int) { begins() })
		ended <- err
	}()
	select {
	case <-moved: // the plugin has said that the task runs
	case <-time.After(patience):
		require.Fail(t, "the write did not begin")
	}
	return ended
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	require.NoError(t, err)
	return found
}

func TestPluginThatDiesInAWriteLeavesItsEndUnknown(t *testing.T) {
	m := newMachine(t)
	p := m.start(t, "1")
	directory := m.directory()
	refresh(t, directory)
	_, id := simulated(inventory.Firmware{})
	drv := installed(t, m, directory, id)
	ended := begun(t, p, m, drv, id)
	p.kill()
	require.ErrorIs(t, <-ended, command.ErrLost, "only a read-back can show the result")
	running, err := m.runner.WriteRunning(card)
	require.NoError(t, err)
	assert.False(t, running)
	m.start(t, "1")
	_, _, err = drv.Inspect(t.Context(), id)
	require.NoError(t, err)
}

func TestWaitsForHangingWrite(t *testing.T) {
	m := newMachine(t)
	p := m.start(t, "1")
	directory := m.directory()
	refresh(t, directory)
	_, id := simulated(inventory.Firmware{})
	drv := installed(t, m, directory, id)
	ended := begun(t, p, m, drv, id)
	p.signal(syscall.SIGSTOP)
	_, _, err := drv.Inspect(t.Context(), id)
	require.ErrorIs(t, err, plugin.ErrUnavailable)
	running, err := m.runner.WriteRunning(card)
	require.NoError(t, err)
	assert.True(t, running, "nobody may write while it may still write")
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGUSR2)
	require.NoError(t, <-ended)
	_, fw, err := drv.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.Version("3.0.0"), fw.Stored)
}

func TestPluginThatIsToldToEndEndsAfterItsWrite(t *testing.T) {
	m := newMachine(t)
	p := m.start(t, "1")
	directory := m.directory()
	refresh(t, directory)
	_, id := simulated(inventory.Firmware{})
	drv := installed(t, m, directory, id)
	ended := begun(t, p, m, drv, id)
	p.signal(syscall.SIGTERM)
	other := id
	other.UniqueID = "other-card"
	require.Eventually(t, func() bool {
		_, err := drv.Activate(t.Context(), id, inventory.ActivateDriverReload)
		return err != nil
	}, patience, tick)
	select {
	case err := <-ended:
		require.Fail(t, "the write was broken off", "%v", err)
	default:
	}
	p.signal(syscall.SIGUSR2)
	require.NoError(t, <-ended, "who follows the write sees its end")
	require.NoError(t, p.Wait())
}

// The tool that follows a write may die; the write does not, and who comes back follows the same one.
func TestWriteOutlivesWhoFollowsIt(t *testing.T) {
	m := newMachine(t)
	sim, id := simulated(inventory.Firmware{Activation: inventory.ActivateDeviceReset, Rollback: inventory.RollbackReadBack})
	serve(t, sim, socket(m.dir, "acme-nic"))
	directory := m.directory()
	refresh(t, directory)
	drv := installed(t, m, directory, id)
	img := drivertest.NewImage(t, board, "2.0.0")
	sim.Inject(card, drivertest.HangWrite)
	ended := make(chan error, 1)
	write := func() {
		_, err := drv.Write(t.Context(), id, img, nil)
		ended <- err
	}
	go write()
	require.Eventually(t, func() bool { return sim.Busy(card) }, patience, tick)
	w, err := m.runner.Writing(card)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(w.Tool.PID, syscall.SIGKILL))
	require.Error(t, <-ended)
	assert.True(t, sim.Busy(card), "the plugin still writes")
	_, _, err = drv.Inspect(t.Context(), id)
	require.ErrorIs(t, err, command.ErrStillRunning, "and is not asked to read the device meanwhile")

	go write()
	require.Eventually(t, func() bool {
		next, err := m.runner.Writing(card)
		return err == nil && next.State == command.WriteRunning && next.Tool.PID != 0 && next.Tool.PID != w.Tool.PID
	}, patience, tick)
	sim.Release(card)
	require.NoError(t, <-ended)
	assert.Equal(t, 1, sim.Count(drivertest.OpWrite, card), "written once")
}

// A plugin of another version than the one that checked the image writes nothing (R003-30).
func TestChangedPluginWritesNothing(t *testing.T) {
	m := newMachine(t)
	p := m.start(t, "1")
	directory := m.directory()
	refresh(t, directory)
	_, id := simulated(inventory.Firmware{})
	drv := installed(t, m, directory, id)
	require.Equal(t, "1", drv.Version())
	img := drivertest.NewImage(t, board, "2.0.0")
	for call, do := range map[string]func() error{
		"write":    func() error { _, err := drv.Write(t.Context(), id, img, nil); return err },
		"activate": func() error { _, err := drv.Activate(t.Context(), id, inventory.ActivateDeviceReset); return err },
		"revert":   func() error { _, err := drv.(driver.Reverter).Revert(t.Context(), id, "2.0.0"); return err },
	} {
		p.kill()
		p = m.start(t, drv.Version()+"2")
		require.ErrorIs(t, do(), plugin.ErrVersionChanged, call)
		_, fw, err := drv.Inspect(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, inventory.Version("1.0.0"), fw.Stored, call)
	}
	p.kill()
	m.start(t, "2")
	err := drv.(driver.Archiver).Archive(t.Context(), id, filepath.Join(t.TempDir(), "image"))
	require.ErrorIs(t, err, plugin.ErrVersionChanged)
	refresh(t, directory)
	assert.Equal(t, "2", drv.Version(), "the next job gets the new version")
}
