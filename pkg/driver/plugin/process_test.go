package plugin_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/pluginserver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// playedPlugin is the argument that makes this test a plugin.
const playedPlugin = "play-plugin"

// playPlugin serves a simulated card on the socket; the second argument is its version. SIGUSR1 makes its next write hang,
// and SIGUSR2 lets it go on. While a write hangs there is a file beside the socket.
func playPlugin(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	sim, _ := simulated(inventory.Firmware{Activation: inventory.ActivateDeviceReset, Rollback: inventory.RollbackReadBack})
	sim.SetVersion(args[1])
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for s := range signals {
			if s == syscall.SIGUSR2 {
				sim.Release(card)
				continue
			}
			sim.Inject(card, drivertest.HangWrite)
			_ = os.WriteFile(hangs(args[0]), nil, 0o600)
		}
	}()
	err := pluginserver.Serve(ctx, sim, filepath.Clean(args[0]), pluginserver.Options{Matches: []pluginserver.Match{
		{Class: inventory.NIC, Support: driver.SupportVendor, VendorIDs: []string{"15b3"}},
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	return 0
}

func hangs(socket string) string { return filepath.Join(filepath.Dir(socket), ".hangs") }

// process is a plugin in a process of its own.
type process struct {
	*exec.Cmd
	t *testing.T
}

// start starts a plugin with the name acme-nic and waits until it answers.
func (m machine) start(t *testing.T, version string) process {
	t.Helper()
	path := socket(m.dir, "acme-nic")
	self, err := os.Executable()
	require.NoError(t, err)
	before, _ := os.Lstat(path)
	p := process{exec.Command(self, playedPlugin, path, version), t}
	p.Stderr = os.Stderr
	require.NoError(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
	require.Eventually(t, func() bool {
		now, err := os.Lstat(path)
		return err == nil && (before == nil || !os.SameFile(before, now))
	}, patience, tick)
	return p
}

func (p process) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.Process.Signal(s))
}

func (p process) kill() {
	p.t.Helper()
	require.NoError(p.t, p.Process.Kill())
	_ = p.Wait()
}

// installed is the driver of the plugin in the directory.
func installed(t *testing.T, m machine, d *plugin.Directory, id inventory.Identity) driver.Driver {
	t.Helper()
	drv, err := d.Drivers(m.runner).For(id)
	require.NoError(t, err)
	require.NotNil(t, drv)
	return drv
}

// inspecting is a driver that can be inspected only.
type inspecting struct{ *changing }

func (i inspecting) Inspect(_ context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	return i.next(id), inventory.Firmware{Running: "1"}, nil
}
