package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/attributes"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/nvmetool"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestRunsBuiltInTools(t *testing.T) {
	c := root()
	c.SetArgs([]string{"tool", nvmetool.Name, "reset"})
	err := c.Execute()
	require.ErrorAs(t, err, new(exitError))
	assert.Equal(t, nvmetool.ExitUsage, exitCode(err), "no device was named")
	c.SetArgs([]string{"tool", "firmware-toaster"})
	require.ErrorContains(t, c.Execute(), "name one of")
}

// The tool that sets settings of system firmware takes the password from its file alone.
func TestTheToolOfSettingsTakesThePasswordFromItsFile(t *testing.T) {
	dir := t.TempDir()
	of := filepath.Join(dir, "sys/class/firmware-attributes/thinklmi")
	write := func(name, content string) {
		file := filepath.Join(of, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	real := filepath.Join(dir, "sys/devices/thinklmi")
	require.NoError(t, os.MkdirAll(real, 0o700))
	require.NoError(t, os.MkdirAll(filepath.Dir(of), 0o700))
	require.NoError(t, os.Symlink("../../devices/thinklmi", of))
	write("attributes/WakeOnLAN/type", "string\n")
	write("attributes/WakeOnLAN/current_value", "Disable\n")
	write("authentication/Admin/is_enabled", "1\n")
	write("authentication/Admin/current_password", "")
	password := filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(password, []byte("secret\n"), 0o600))
	args := []string{
		"tool", attributes.Tool, "set", "--root", dir, "--interface", "thinklmi", "--authentication", "Admin", "--password-file", password, "--", "WakeOnLAN", "Enable",
	}
	run := func() error {
		c := root()
		c.SetArgs(args)
		return c.Execute()
	}
	require.NoError(t, run())
	told, err := os.ReadFile(filepath.Join(of, "authentication/Admin/current_password"))
	require.NoError(t, err)
	assert.Equal(t, "\x00", string(told), "it is taken back")
	require.NoError(t, os.Chmod(password, 0o644))
	require.ErrorAs(t, run(), new(exitError), "everybody can read it")
}

// A simulated machine has drives that the kernel does not know, and the kernel drives that are none of that machine's.
func TestTheKernelIsAskedAboutItsOwnMachineAlone(t *testing.T) {
	runner, err := command.NewExecRunner(command.Config{Path: []string{t.TempDir()}, Own: ownArgv()})
	require.NoError(t, err)
	for _, kernel := range []bool{true, false} {
		drives, err := builtin(runner, nil, kernel, config.Machine{}).For(inventory.Identity{Class: inventory.Disk, Transport: "nvme", Node: "nvme0"})
		require.NoError(t, err)
		assert.Equal(t, kernel, drives.(driver.Prober).Usable() == nil, "nvme-cli is not installed, the program's own tool always is")
	}
}
