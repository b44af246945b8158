package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
)

func TestRefusesUnsafePluginDir(t *testing.T) {
	state := t.TempDir()
	dir := filepath.Join(state, "plugins")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chmod(dir, 0o777))
	c := root()
	c.SetArgs([]string{"discover", "--state-dir", state, "--profile-dir", ""})
	require.ErrorContains(t, c.Execute(), "--plugin-dir: plugin directory "+dir)
	none, err := pluginsOf(config.Machine{StateDir: state, PluginDir: config.NoPlugins}, nil, forgetPlugins)
	require.NoError(t, err)
	assert.Nil(t, none)
}

func TestLeavesOutInstalledPlugin(t *testing.T) {
	dir, err := os.MkdirTemp("", "plug") //nolint:usetesting // the path of a socket has to be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "acme-nic.sock"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	m := config.Machine{StateDir: t.TempDir(), PluginDir: dir, DisabledDrivers: []string{"acme-nic"}}
	_, err = driversOf(m, nil)
	require.NoError(t, err, "the name is known")
	m.DisabledDrivers = []string{"acme-drive"}
	_, err = driversOf(m, nil)
	require.ErrorContains(t, err, "acme-drive")
}
