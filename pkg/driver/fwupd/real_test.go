package fwupd

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/toolcontract"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// machine runs the real fwupdtool on a directory that it takes for a machine with UEFI.
type machine struct {
	toolcontract.UEFI
	tool string
}

func newMachineFor(t *testing.T) machine {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err != nil || os.Geteuid() != 0 {
		t.Skip("the real fwupdtool is not installed here, or this is not root")
	}
	u, err := toolcontract.NewUEFI(t.TempDir(), guid, 0x45)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(u.Dir, "proc/self"), 0o755))
	return machine{u, path}
}

// Run runs the real tool on the machine.
func (m machine) Run(ctx context.Context, c command.Command) (command.Result, error) {
	r, err := command.NewExecRunner(command.Config{Path: []string{filepath.Dir(m.tool)}, StateDir: m.Dir})
	if err != nil {
		return command.Result{}, err
	}
	for i, e := range c.Env { // the tests' partition is not mounted where the driver believes it to be
		c.Env[i] = strings.Replace(e, "FWUPD_UEFI_ESP_PATH=/boot/efi", m.TellESP(), 1)
	}
	c.Env = append(c.Env, m.Env()...)
	return r.Run(ctx, c)
}

func (m machine) mount(t *testing.T) {
	t.Helper()
	require.NoError(t, os.WriteFile(m.Dir+"/proc/self/mountinfo", []byte(usual), 0o600))
}

func (m machine) capsules(t *testing.T) []string {
	t.Helper()
	found, err := m.Capsules()
	require.NoError(t, err)
	return found
}

// The real tool, without D-Bus, without metadata and in a directory of its own: what the driver tells it is enough to leave the capsule on
// the partition and to ask the firmware for it.
func TestRealFwupdtoolStagesCapsule(t *testing.T) {
	m := newMachineFor(t)
	img := drivertest.SaveImage(t, "2.10.3", simhost.BuildImage(simhost.BIOSImage, simhost.ImageOptions{Version: "2.10.3", GUID: guid}))

	d := New(m, os.DirFS(m.Dir)).Keep(m.Dir + "/daemon")
	err := d.Check(t.Context(), id, img)
	require.ErrorContains(t, err, "mount it at /boot/efi on the host")
	assert.NotErrorAs(t, err, new(*driver.RejectedError))

	m.mount(t)
	untold := New(m, os.DirFS(m.Dir))
	_, err = untold.Write(t.Context(), id, img, nil)
	require.ErrorContains(t, err, "formats were different", "it has to be told the format of versions")
	assert.NotErrorAs(t, err, new(*driver.RejectedError))
	require.Empty(t, m.capsules(t))

	require.NoError(t, d.Check(t.Context(), id, img))
	need, err := d.Write(t.Context(), id, img, nil)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, need)
	require.Len(t, m.capsules(t), 1)
	asked, err := m.Indications()
	require.NoError(t, err)
	assert.EqualValues(t, capsuleOnDisk, asked, "the firmware is asked to look there")

	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.Version("2.10.2"), fw.Running)
	assert.Equal(t, inventory.Version("2.10.3"), fw.Stored, "the reboot brings it")
	need, err = d.Write(t.Context(), id, img, nil)
	require.NoError(t, err, "what is staged is not staged again")
	assert.Equal(t, inventory.ActivateReboot, need)
}

// What only the tool can find out, the driver passes on, and blames no archive for what the machine lacks.
func TestTheRealFwupdtoolIsBelieved(t *testing.T) {
	m := newMachineFor(t)
	m.mount(t)
	require.NoError(t, m.Fill())
	img := drivertest.SaveImage(t, "2.10.3", simhost.BuildImage(simhost.BIOSImage, simhost.ImageOptions{Version: "2.10.3", GUID: guid}))
	d := New(m, os.DirFS(m.Dir)).Keep(m.Dir + "/daemon")
	_, err := d.Write(t.Context(), id, img, nil)
	require.ErrorContains(t, err, "does not have sufficient space")
	assert.NotErrorAs(t, err, new(*driver.RejectedError))
	require.Empty(t, m.capsules(t))
}
