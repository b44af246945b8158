package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

const exampleProfiles = "../../docs/examples/profiles"

func TestProfilesBecomeDriversBesideTheBuiltInOnes(t *testing.T) {
	drivers, err := driversOf(config.Machine{ProfileDir: exampleProfiles})
	require.NoError(t, err)
	all := drivers(nil, nil)
	assert.Greater(t, len(all), len(builtin(nil, nil, false)))
	for vendor, want := range map[string]string{"Dell Inc.": "dell-bios", "Lenovo": "fwupd"} {
		d, err := all.For(inventory.Identity{Class: inventory.BIOS, Vendor: vendor})
		require.NoError(t, err)
		assert.Equal(t, want, d.Name())
	}
}

func TestNoProfilesAreNeeded(t *testing.T) {
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "missing")} {
		drivers, err := driversOf(config.Machine{ProfileDir: dir})
		require.NoError(t, err)
		assert.Len(t, drivers(nil, nil), len(builtin(nil, nil, false)))
	}
}

func TestABadProfileRefusesToStart(t *testing.T) {
	good, err := os.ReadFile(filepath.Join(exampleProfiles, "dell-bios.yaml"))
	require.NoError(t, err)
	_, afterName, found := strings.Cut(string(good), "\nname: dell-bios\n")
	require.True(t, found)
	dir := t.TempDir()
	save := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	save("a.yaml", "name: nvme\n"+afterName)
	_, err = driversOf(config.Machine{ProfileDir: dir})
	require.ErrorContains(t, err, `profile "nvme" in `+dir+" has the name of a driver")
	save("b.yaml", "name: x\nbogus: 1\n")
	for _, command := range []string{"run", "discover", "steps"} {
		c := root()
		args := []string{command, "--state-dir", t.TempDir(), "--profile-dir", dir}
		if command == "run" {
			args = append(args, "--node-name", "n1")
		}
		c.SetArgs(args)
		require.ErrorContains(t, c.Execute(), filepath.Join(dir, "b.yaml")+":2: bogus: no such field", command)
	}
}
