package plugin_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestPluginMayComeLaterAndGo(t *testing.T) {
	m := newMachine(t)
	directory := m.directory()
	set := directory.Drivers(m.runner)
	assert.False(t, refresh(t, directory))
	sim, id := simulated(inventory.Firmware{Activation: inventory.ActivateDeviceReset})
	d, err := set.For(id)
	require.NoError(t, err)
	assert.Nil(t, d)

	stop := serve(t, sim, socket(m.dir, "acme-nic"))
	assert.True(t, refresh(t, directory), "it came")
	d, err = set.For(id)
	require.NoError(t, err)
	assert.Equal(t, "acme-nic", d.Name())
	assert.Equal(t, "1", d.Version())
	assert.Equal(t, driver.SupportVendor, d.Support(id))
	assert.False(t, refresh(t, directory), "nothing is new")

	stop()
	refresh(t, directory)
	d, err = set.For(id)
	require.NoError(t, err)
	assert.NotNil(t, d, "what was ended may be started again")

	sim.SetVersion("2")
	stop = serve(t, sim, socket(m.dir, "acme-nic"))
	assert.True(t, refresh(t, directory))
	assert.Equal(t, "2", d.Version())

	stop()
	require.NoError(t, os.Remove(socket(m.dir, "acme-nic")))
	assert.True(t, refresh(t, directory), "it was uninstalled")
	d, err = set.For(id)
	require.NoError(t, err)
	assert.Nil(t, d)
}

// After a reboot the daemon may run before the plugin: the device still has its driver, and the job its version (R003-30).
func TestRestartRemembersPlugin(t *testing.T) {
	m := newMachine(t)
	memory := filepath.Join(m.state, "plugins.json")
	recording := func(c *plugin.Config) { c.Memory, c.Record = memory, true }
	sim, id := simulated(inventory.Firmware{Activation: inventory.ActivateDeviceReset})
	sim.SetVersion("1.2.3")
	stop := serve(t, sim, socket(m.dir, "acme-nic"))
	refresh(t, m.directory(recording))
	stop()

	next := m.directory(recording)
	assert.True(t, refresh(t, next))
	d := installed(t, m, next, id)
	assert.Equal(t, "acme-nic", d.Name())
	assert.Equal(t, "1.2.3", d.Version())
	_, _, err := d.Inspect(t.Context(), id)
	require.ErrorIs(t, err, plugin.ErrUnavailable)

	serve(t, sim, socket(m.dir, "acme-nic"))
	_, _, err = d.Inspect(t.Context(), id)
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(memory, []byte(`[{"Name":"../etc"},`), 0o600))
	damaged := m.directory(recording)
	assert.True(t, refresh(t, damaged), "a damaged memory is no memory")
	assert.NotNil(t, installed(t, m, damaged, id))
}

func TestAsksSilentPluginAgain(t *testing.T) {
	m := newMachine(t)
	now := time.Now()
	directory := m.directory(func(c *plugin.Config) { c.Now = func() time.Time { return now } })
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket(m.dir, "acme-nic"))
	require.NoError(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, l.Close()) // a socket nobody serves
	assert.False(t, refresh(t, directory))
	stale, err := os.Lstat(socket(m.dir, "acme-nic"))
	require.NoError(t, err)

	sim, id := simulated(inventory.Firmware{})
	serve(t, sim, socket(m.dir, "acme-nic"))
	fresh, err := os.Lstat(socket(m.dir, "acme-nic"))
	require.NoError(t, err)
	require.False(t, os.SameFile(stale, fresh))
	assert.True(t, refresh(t, directory), "a new socket is asked at once")
	assert.NotNil(t, installed(t, m, directory, id))
}

func TestNoPluginsInUnsafeDirectory(t *testing.T) {
	t.Run("others may write", func(t *testing.T) {
		m := newMachine(t)
		require.NoError(t, os.Chmod(m.dir, 0o777))
		_, err := m.directory().Refresh(t.Context())
		require.ErrorContains(t, err, "chmod go-w")
	})
	t.Run("a file", func(t *testing.T) {
		m := newMachine(t)
		m.dir = filepath.Join(m.dir, "file")
		require.NoError(t, os.WriteFile(m.dir, nil, 0o600))
		_, err := m.directory().Refresh(t.Context())
		require.ErrorContains(t, err, "not a directory")
	})
	t.Run("a link", func(t *testing.T) {
		m := newMachine(t)
		link := filepath.Join(t.TempDir(), "link")
		require.NoError(t, os.Symlink(m.dir, link))
		m.dir = link
		_, err := m.directory().Refresh(t.Context())
		require.ErrorContains(t, err, "not a directory")
	})
	t.Run("of somebody else", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root can give files away")
		}
		m := newMachine(t)
		require.NoError(t, os.Chown(m.dir, 65534, 65534))
		_, err := m.directory().Refresh(t.Context())
		require.ErrorContains(t, err, "chown root")
	})
	t.Run("missing", func(t *testing.T) {
		m := newMachine(t)
		m.dir = filepath.Join(m.dir, "missing")
		_, err := m.directory().Refresh(t.Context())
		require.NoError(t, err, "there are no plugins then")
	})
}

func TestOnlySocketsWithTheNameOfTheirPluginAreUsed(t *testing.T) {
	for name, make := range map[string]func(t *testing.T, m machine){
		"a file": func(t *testing.T, m machine) {
			require.NoError(t, os.WriteFile(socket(m.dir, "acme-nic"), nil, 0o600))
		},
		"a link": func(t *testing.T, m machine) {
			sim, _ := simulated(inventory.Firmware{})
			elsewhere := newMachine(t)
			serve(t, sim, socket(elsewhere.dir, "acme-nic"))
			require.NoError(t, os.Symlink(socket(elsewhere.dir, "acme-nic"), socket(m.dir, "acme-nic")))
		},
		"the name of another": func(t *testing.T, m machine) {
			sim, _ := simulated(inventory.Firmware{})
			serve(t, sim, socket(m.dir, "acme-nic"))
			require.NoError(t, os.Rename(socket(m.dir, "acme-nic"), socket(m.dir, "acme-drive")))
		},
		"no name": func(t *testing.T, m machine) {
			sim, _ := simulated(inventory.Firmware{})
			serve(t, sim, socket(m.dir, "acme-nic"))
			require.NoError(t, os.Rename(socket(m.dir, "acme-nic"), socket(m.dir, "Acme NIC")))
		},
		"the name of a driver of the daemon": func(t *testing.T, m machine) {
			sim := drivertest.NewSimulated("nvme")
			serve(t, sim, socket(m.dir, "nvme"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			make(t, m)
			directory := m.directory(func(c *plugin.Config) { c.Reserved = []string{"nvme"} })
			assert.False(t, refresh(t, directory))
			_, id := simulated(inventory.Firmware{})
			d, err := directory.Drivers(m.runner).For(id)
			require.NoError(t, err)
			assert.Nil(t, d)
		})
	}
}

// Bad input: two drivers claim one device.
func TestRefusesRivalPlugins(t *testing.T) {
	m := newMachine(t)
	for _, name := range []string{"acme-nic", "rival"} {
		serve(t, drivertest.NewSimulated(name), socket(m.dir, name))
	}
	directory := m.directory()
	refresh(t, directory)
	_, id := simulated(inventory.Firmware{})
	_, err := directory.Drivers(m.runner).For(id)
	require.ErrorContains(t, err, "acme-nic")
	assert.ErrorContains(t, err, "rival")
}

func TestNoMorePluginsThanPlaces(t *testing.T) {
	m := newMachine(t)
	for i := range plugin.MaxPlugins + 1 {
		name := "plugin-" + string(rune('a'+i))
		serve(t, drivertest.NewSimulated(name), socket(m.dir, name))
	}
	directory := m.directory()
	refresh(t, directory)
	names := map[string]bool{}
	for _, d := range directory.Drivers(m.runner) {
		names[d.Name()] = true
	}
	assert.Len(t, names, plugin.MaxPlugins)
	assert.NotContains(t, names, "plugin-q")
}
