package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// TestExampleRunsBesideTheDaemon: the real programs, as the README of the example has them started. A plugin has its drive
// before a driver of the daemon has, keeps it when it is killed, and nothing else suffers.
func TestExampleRunsBesideTheDaemon(t *testing.T) {
	dir, err := os.MkdirTemp("", "plug") //nolint:usetesting // the path of a socket has to be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, child.Build(dir, "firmware-plugin", "firmware-daemon", "firmware-simtools"))
	example := filepath.Join(dir, "acme-drive")
	out, err := exec.Command("go", "build", "-tags=grpcnotrace", "-ldflags=-s -w", "-o", example, "../../docs/examples/plugin").CombinedOutput()
	require.NoError(t, err, "%s", out)
	machine, err := simhost.Create(filepath.Join(dir, "machine"), simhost.DefaultSpec("n1", 1))
	require.NoError(t, err)
	require.NoError(t, machine.InstallTools(filepath.Join(dir, "firmware-simtools")))
	discover := func() []cli.Device {
		t.Helper()
		c := exec.Command(filepath.Join(dir, "firmware-daemon"), "discover", "-o", "json", "--host-root", machine.Dir(),
			"--state-dir", filepath.Join(dir, "state"), "--tool-path", machine.ToolPath(), "--profile-dir", "")
		out, err := c.Output()
		require.NoError(t, err, "%s", out)
		var found cli.Hardware
		require.NoError(t, json.Unmarshal(out, &found))
		return found.Devices
	}
	before := discover()
	at := -1
	for i, d := range before {
		if d.Class == string(inventory.Disk) && d.Driver == "nvme" {
			at = i
		}
	}
	require.GreaterOrEqual(t, at, 0, "%+v", before)
	drive := before[at]

	plugins, flash := filepath.Join(dir, "state", "plugins"), filepath.Join(dir, "drives", drive.UniqueID)
	require.NoError(t, os.MkdirAll(plugins, 0o700))
	require.NoError(t, os.MkdirAll(flash, 0o700))
	img, err := exec.Command(example, "--board", "AF-1", "--version", "7.0.0").Output()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(flash, "firmware"), img, 0o600))
	plugin := exec.Command(example, "--socket", filepath.Join(plugins, "acme-drive.sock"), "--dir", filepath.Dir(flash), "--model", drive.Model)
	require.NoError(t, plugin.Start())
	t.Cleanup(func() { _ = plugin.Process.Kill(); _ = plugin.Wait() })
	require.Eventually(t, func() bool {
		_, err := os.Lstat(filepath.Join(plugins, "acme-drive.sock"))
		return err == nil
	}, 2*time.Minute, 10*time.Millisecond)

	now := discover()
	require.Len(t, now, len(before))
	assert.Equal(t, "acme-drive", now[at].Driver)
	assert.Equal(t, "7.0.0", now[at].Running)
	assert.Equal(t, "AF-1", now[at].BoardID)
	assert.Equal(t, drive.UniqueID, now[at].UniqueID)

	claimed, err := json.Marshal([]map[string]any{{"Name": "acme-drive", "Version": "1.0.0", "Matches": []map[string]any{
		{"Class": "Disk", "Support": 3, "Models": []string{drive.Model}},
	}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "state", "plugins.json"), claimed, 0o600)) // as a daemon keeps it
	require.NoError(t, plugin.Process.Kill())
	_ = plugin.Wait()
	now = discover()
	assert.Contains(t, now[at].Problem, "does not answer")
	assert.Empty(t, now[at].Running, "no other driver reads it")
	for i := range before {
		if i != at && before[i].Model != drive.Model {
			assert.Equal(t, before[i], now[i], "nothing else suffers")
		}
	}
}
