package mstflint

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// without is a machine on which one tool is not used, and the others are played.
type without struct {
	command.Runner
	tool string
}

func (w without) Run(ctx context.Context, c command.Command) (command.Result, error) {
	if c.Argv[0] == w.tool {
		return command.Result{}, &command.Error{Argv: c.Argv, ExitCode: -1, Err: fmt.Errorf("%w: it is older than 4.21.0", command.ErrRefused)}
	}
	return w.Runner.Run(ctx, c)
}

// A card is not left to fail in the middle of its job: how it is activated is known before.
func TestACardWhoseResetToolIsNotUsedIsActivatedByAReboot(t *testing.T) {
	_, fw, err := New(without{newFlint(t).runner(t), resetTool}, machine).Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, fw.Activation)
	assert.Equal(t, "mstfwreset does not work here: tool not used: it is older than 4.21.0", fw.ActivationMessage)
}

// An error is no reason: it may be gone at the next look, and a card must not change its driver between the steps of a job.
func TestAnUnreadableLockdownDoesNotChangeTheDriver(t *testing.T) {
	kernel := fstest.MapFS{"sys/kernel/security/lockdown": {Data: []byte("none integrity")}}
	d := New(commandtest.NewRunner(t, nil), kernel)
	assert.NoError(t, d.Reaches(id))
	kernel["sys/kernel/security/lockdown"].Data = []byte("none [integrity] confidentiality")
	require.ErrorContains(t, d.Reaches(id), "locked down (integrity)")
}

// From 4.33 on the tool would give the cards without a kernel driver to vfio-pci. A device of fwctl changes nothing: what the kernel lets
// be written there shows only in the middle of a burn.
func TestLockedDownRunsNoTool(t *testing.T) {
	const function = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
	link := func(target string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
	}
	for name, kernel := range map[string]fstest.MapFS{
		"plain": {},
		"with vfio-pci and fwctl": {
			"sys/module/vfio_pci/initstate":   {Data: []byte("live")},
			"sys/class/fwctl/fwctl0":          link("../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/fwctl/fwctl0"),
			function + "/fwctl/fwctl0/device": link("../../../0000:3b:00.0"),
			function + "/vendor":              {Data: []byte("0x15b3")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			kernel["sys/kernel/security/lockdown"] = &fstest.MapFile{Data: []byte("none [integrity] confidentiality")}
			d, img := New(commandtest.NewRunner(t, nil), kernel), image(t, "22.41.1000")
			sriov := driver.Configuration{Set: []inventory.Setting{{Name: sriovEnabled, Value: "1"}}}
			for operation, run := range map[string]func() error{
				"inspect":           func() error { _, _, err := d.Inspect(t.Context(), id); return err },
				"check":             func() error { return d.Check(t.Context(), id, img) },
				"write":             func() error { _, err := d.Write(t.Context(), id, img, nil); return err },
				"activate":          func() error { _, err := d.Activate(t.Context(), id, inventory.ActivateDeviceReset); return err },
				"settings":          func() error { _, err := d.Parameters(t.Context(), id); return err },
				"check of settings": func() error { return d.CheckConfiguration(t.Context(), id, sriov) },
				"configure":         func() error { _, err := d.Configure(t.Context(), id, sriov); return err },
				"archive":           func() error { return d.Archive(t.Context(), id, filepath.Join(t.TempDir(), "image")) },
			} {
				require.ErrorContains(t, run(), "locked down (integrity)", operation)
			}
		})
	}
}
