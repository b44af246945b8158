package cli_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/daemon"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/fwupd"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/mstflint"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/scsi"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool"
)

// A device whose tool is too old or not for this machine says so and what to do, before any job; the others are read as ever.
func TestDeviceNamesUnusableTool(t *testing.T) {
	s := newStageOf(t, func(*simhost.Spec) {})
	replace := func(tool, content string) {
		path := filepath.Join(s.ToolPath(), tool)
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o755))
	}
	replace("mstflint", "#!/bin/sh\necho 'mstflint, mstflint 4.9.0, Git SHA Hash: N/A'\n")
	replace("fwupdtool", "#!/nowhere/fwupd\n")
	drivers := func(r command.Runner, root fs.FS) driver.Set {
		return driver.Set{mstflint.New(r, root), nvme.New(r), scsi.New(r), fwupd.New(r, root), fwupd.NewATA(r)}
	}
	root := sysfs.DirFS(s.Dir())
	tools, found, err := daemon.Survey(t.Context(), root, command.Config{Path: []string{s.ToolPath()}, StateDir: t.TempDir()}, drivers)
	require.NoError(t, err)
	support := map[string]vendortool.Support{}
	for _, f := range found {
		support[f.Tool] = f.Support
	}
	assert.Equal(t, map[string]vendortool.Support{
		"mstflint": vendortool.TooOld, "mstfwreset": vendortool.Tested, "mstconfig": vendortool.Tested, "lspci": vendortool.Tested, "setpci": vendortool.Tested,
		"nvme": vendortool.Tested, "sg_inq": vendortool.Tested, "sg_logs": vendortool.Tested, "sg_opcodes": vendortool.Tested, "sg_read_buffer": vendortool.Tested,
		"sg_luns": vendortool.Tested, "sg_persist": vendortool.Tested, "sg_requests": vendortool.Tested, "sg_sanitize": vendortool.Tested,
		"sg_write_buffer": vendortool.Tested, "sg_sat_identify": vendortool.Tested, "fwupdtool": vendortool.CannotRun,
	}, support)

	hardware, err := daemon.NewHardware(root, tools, drivers)
	require.NoError(t, err)
	devices, err := hardware.Scan(t.Context())
	require.NoError(t, err)
	read := map[inventory.Class]int{}
	for _, d := range devices {
		switch d.Class {
		case inventory.NIC:
			require.ErrorContains(t, d.Err, "version 4.9.0 is older than 4.21.0")
			require.ErrorContains(t, d.Err, "install version 4.21.0 to 4.33.0")
		case inventory.BIOS:
			require.NoError(t, d.Err, "its version is in the tables of the machine")
			assert.Contains(t, d.Firmware.ReadOnly, "fwupdtool")
			assert.Contains(t, d.Firmware.ReadOnly, "the interpreter of a script")
		default:
			require.NoError(t, d.Err)
		}
		read[d.Class]++
	}
	for _, class := range []inventory.Class{inventory.NIC, inventory.BIOS, inventory.Disk} {
		assert.Positive(t, read[class], class)
	}
}
