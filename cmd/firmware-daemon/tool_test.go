package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
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

// A simulated machine has drives that the kernel does not know, and the kernel drives that are none of that machine's.
func TestTheKernelIsAskedAboutItsOwnMachineAlone(t *testing.T) {
	runner, err := command.NewExecRunner(command.Config{Path: []string{t.TempDir()}, Own: ownArgv()})
	require.NoError(t, err)
	for _, kernel := range []bool{true, false} {
		drives, err := builtin(runner, nil, kernel, "").For(inventory.Identity{Class: inventory.Disk, Transport: "nvme", Node: "nvme0"})
		require.NoError(t, err)
		assert.Equal(t, kernel, drives.(driver.Prober).Usable() == nil, "nvme-cli is not installed, the program's own tool always is")
	}
}
