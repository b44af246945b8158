package plugin_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/pluginserver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/plugintool"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/v1"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/wire"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// TestMain makes this test the tool that speaks to plugins, and a plugin, when it is started as one.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == plugin.Tool:
		os.Exit(plugintool.Main(context.Background(), os.Args[2:], os.Stdout, os.Stderr))
	case len(os.Args) > 1 && os.Args[1] == playedPlugin:
		os.Exit(playPlugin(os.Args[2:]))
	}
	os.Exit(m.Run())
}

const (
	card  = "e41d2d0300fa7b10"
	board = "MT_0000000359"
	// patience is how long processes may take on a busy machine.
	patience = 5 * time.Minute
	tick     = 10 * time.Millisecond
)

// machine is a plugin directory and a runner with the tool.
type machine struct {
	dir    string
	state  string
	runner *command.ExecRunner
}

func newMachine(t *testing.T) machine {
	t.Helper()
	dir, err := os.MkdirTemp("", "plug") //nolint:usetesting // the path of a socket has to be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	self, err := os.Executable()
	require.NoError(t, err)
	m := machine{dir: dir, state: t.TempDir()}
	m.runner, err = command.NewExecRunner(command.Config{
		Path: []string{"/nowhere"}, StateDir: m.state, Own: map[string][]string{plugin.Tool: {self, plugin.Tool}},
	})
	require.NoError(t, err)
	return m
}

func (m machine) directory(change ...func(*plugin.Config)) *plugin.Directory {
	cfg := plugin.Config{Dir: m.dir}
	for _, c := range change {
		c(&cfg)
	}
	d := plugin.New(cfg)
	d.Drivers(m.runner)
	return d
}

func refresh(t *testing.T, d *plugin.Directory) bool {
	t.Helper()
	changed, err := d.Refresh(t.Context())
	require.NoError(t, err)
	return changed
}

func socket(dir, name string) string { return filepath.Join(dir, name+".sock") }

// serve serves the driver in this process until the returned function is called or the test ends.
func serve(t *testing.T, d driver.Driver, socket string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- pluginserver.Serve(ctx, d, socket, pluginserver.Options{Matches: []pluginserver.Match{
			{Class: inventory.NIC, Support: driver.SupportVendor, VendorIDs: []string{"15b3"}},
		}})
	}()
	require.Eventually(t, func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", socket)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, patience, tick)
	var stopped bool
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			assert.NoError(t, <-ended)
		}
	}
	t.Cleanup(stop)
	return stop
}

func simulated(fw inventory.Firmware) (*drivertest.Simulated, inventory.Identity) {
	id := inventory.Identity{
		Class: inventory.NIC, UniqueID: card, VendorID: "15b3", DeviceID: "101d", BoardID: board, Kernel: "mlx5_core",
		PCI: []inventory.PCIAddress{{Bus: 0x3b}, {Bus: 0x3b, Function: 1}}, Node: "eth0",
	}
	fw.Running, fw.Format = "1.0.0", inventory.FormatDotted
	sim := drivertest.NewSimulated("acme-nic")
	sim.Add(id, fw)
	return sim, id
}

// R003-40: a plugin passes the suite built-in drivers pass.
func TestPluginConforms(t *testing.T) {
	for _, back := range []inventory.Rollback{
		inventory.RollbackNone, inventory.RollbackReadBack, inventory.RollbackSlot, inventory.RollbackImage,
	} {
		t.Run(back.String(), func(t *testing.T) {
			fw := inventory.Firmware{Activation: inventory.ActivateDeviceReset, Rollback: back}
			if back == inventory.RollbackNone {
				fw.RollbackMessage = "it was made so"
			}
			drivertest.Run(t, func(t *testing.T) drivertest.Harness { return harness(t, fw) })
		})
	}
}

func harness(t *testing.T, fw inventory.Firmware) drivertest.Harness {
	t.Helper()
	m := newMachine(t)
	sim, id := simulated(fw)
	sim.Give(card, parameters(fw.Activation)...)
	stop := serve(t, sim, socket(m.dir, "acme-nic"))
	directory := m.directory()
	require.True(t, refresh(t, directory))
	drv, err := directory.Drivers(m.runner).For(id)
	require.NoError(t, err)
	inject := func(f drivertest.Fault) func(*testing.T) {
		return func(*testing.T) { sim.Inject(card, f) }
	}
	damaged := drivertest.ImageBytes(board, "2.0.0")
	return drivertest.Harness{
		Driver:         drv,
		ID:             id,
		Image:          drivertest.NewImage(t, board, "2.0.0"),
		Other:          drivertest.NewImage(t, board, "3.0.0"),
		Previous:       drivertest.NewImage(t, board, "1.0.0"),
		WrongBoard:     drivertest.NewImage(t, "MT_0000000001", "2.0.0"),
		Damaged:        drivertest.SaveImage(t, "2.0.0", damaged[:len(damaged)-100]),
		SelfDescribing: true,
		Reboot:         func(*testing.T) { sim.Reboot() },
		Garbage: func(t *testing.T) {
			stop()
			babble(t, socket(m.dir, "acme-nic"))
		},
		Unreadable: inject(drivertest.Unreadable),
		FailWrite:  func(_ *testing.T, stderr string) { sim.FailWrite(card, stderr) },
		LieWrite:   inject(drivertest.LieWrite),
		HangWrite: func(*testing.T) (func() bool, func()) {
			sim.Inject(card, drivertest.HangWrite)
			return func() bool { return sim.Busy(card) }, func() { sim.Release(card) }
		},
		WriteRunning: func(t *testing.T, lock string) bool {
			running, err := m.runner.WriteRunning(lock)
			require.NoError(t, err)
			return running
		},
		FailRead: inject(drivertest.FailArchive),
		Stored:   func(*testing.T) inventory.Version { return sim.Firmware(card).Stored },
		Settings: &drivertest.Settings{
			Set:      []inventory.Setting{{Name: "SRIOV_EN", Value: "1"}, {Name: "numVFs", Value: "8"}},
			Misfits:  []inventory.Setting{{Name: "numVFs", Value: "128"}, {Name: "SRIOV_EN", Value: "2"}},
			ReadOnly: "BOARD_REV",
			Stored:   func(_ *testing.T, name string) string { return sim.Parameter(card, name).Next.Value },
		},
	}
}

// parameters are those of a card whose values come into force by the kind of activation.
func parameters(kind inventory.Activation) []inventory.Parameter {
	return []inventory.Parameter{
		{
			Name: "numVFs", Current: inventory.Read("0"), Default: inventory.Read("0"), Needs: kind,
			Domain: inventory.Domain{Number: &inventory.Interval{Max: 127}}, Spelling: inventory.SpelledAsNumber,
		},
		{
			Name: "SRIOV_EN", Current: inventory.Read("0"), Needs: kind,
			Domain: inventory.Domain{Values: []string{"False(0)", "True(1)"}}, Spelling: inventory.SpelledWithCode,
		},
		{Name: "BOARD_REV", Current: inventory.Read("3"), Default: inventory.Read("3"), ReadOnly: "the vendor sets it"},
	}
}

// withoutSettings is a driver that has none.
type withoutSettings struct{ driver.Driver }

// old is a plugin that was built before the protocol had settings: it knows no call about them.
type old struct {
	pluginv1.UnimplementedDriverServer
	id inventory.Identity
}

func (old) GetInfo(context.Context, *pluginv1.GetInfoRequest) (*pluginv1.GetInfoResponse, error) {
	return wire.InfoTo(plugin.Info{Name: "acme-nic", Version: "1", Matches: []plugin.Match{
		{Class: inventory.NIC, Support: driver.SupportVendor, VendorIDs: []string{"15b3"}},
	}})
}

func (o old) Inspect(context.Context, *pluginv1.InspectRequest) (*pluginv1.InspectResponse, error) {
	id, err := wire.IdentityTo(o.id)
	if err != nil {
		return nil, err
	}
	fw, err := wire.FirmwareTo(inventory.Firmware{Running: "1.0.0"})
	return &pluginv1.InspectResponse{Status: wire.OK(), Identity: id, Firmware: fw}, err
}

func serveOld(t *testing.T, id inventory.Identity, socket string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)
	server := grpc.NewServer()
	pluginv1.RegisterDriverServer(server, old{id: id})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
}

// A plugin that does not say that it has settings has none, and its devices have those that others have of them. It answers what it does not know
// with "not supported".
func TestAPluginWithoutSettingsGoesOnWorking(t *testing.T) {
	for name, play := range map[string]func(t *testing.T, socket string) inventory.Identity{
		"driver without settings": func(t *testing.T, socket string) inventory.Identity {
			sim, id := simulated(inventory.Firmware{})
			serve(t, withoutSettings{sim}, socket)
			return id
		},
		"old plugin": func(t *testing.T, socket string) inventory.Identity {
			_, id := simulated(inventory.Firmware{})
			serveOld(t, id, socket)
			return id
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			assertNoSettings(t, m, play(t, socket(m.dir, "acme-nic")))
		})
	}
}

func assertNoSettings(t *testing.T, m machine, id inventory.Identity) {
	t.Helper()
	directory := m.directory()
	refresh(t, directory)
	drv := installed(t, m, directory, id)
	read, fw, err := drv.Inspect(t.Context(), id)
	require.NoError(t, err)
	_, err = driver.Set{drv}.Configurer(inventory.Device{Identity: read, Driver: "acme-nic", Firmware: &fw})
	require.ErrorIs(t, err, driver.ErrNotSupported)
	c := drv.(driver.MaybeConfigurer)
	assert.False(t, c.Configures())
	_, err = c.Parameters(t.Context(), id)
	require.ErrorIs(t, err, driver.ErrNotSupported)
	require.ErrorIs(t, c.CheckConfiguration(t.Context(), id, driver.Configuration{}), driver.ErrNotSupported)
	_, err = c.Configure(t.Context(), id, driver.Configuration{})
	require.ErrorIs(t, err, driver.ErrNotSupported)
}

// A plugin with settings is asked for them.
func TestAPluginSaysThatItHasSettings(t *testing.T) {
	m := newMachine(t)
	sim, id := simulated(inventory.Firmware{})
	sim.Give(card, parameters(inventory.ActivateReboot)...)
	serve(t, sim, socket(m.dir, "acme-nic"))
	directory := m.directory()
	refresh(t, directory)
	drv := installed(t, m, directory, id)
	read, fw, err := drv.Inspect(t.Context(), id)
	require.NoError(t, err)
	c, err := driver.Set{drv}.Configurer(inventory.Device{Identity: read, Driver: "acme-nic", Firmware: &fw})
	require.NoError(t, err)
	all, err := c.Parameters(t.Context(), id, "numVFs")
	require.NoError(t, err)
	assert.Len(t, all, 1)
}

// babble answers every connection to the socket with nonsense.
func babble(t *testing.T, socket string) {
	t.Helper()
	require.NoError(t, os.Remove(socket))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
			_ = conn.Close()
		}
	}()
}
