package fwupd

import (
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// machine is a directory that the real fwupdtool takes for a machine with UEFI: the tables, the variables, and the EFI system partition.
type machine struct {
	dir  string
	env  []string
	tool string
}

const osIndications = "OsIndications%s-8be4df61-93ca-11d2-aa0d-00e098032b8c"

// capsuleOnDisk is the bit by which a firmware promises, and is asked, to look for capsules on the partition (UEFI Specification 2.10,
// section 8.5.4).
const capsuleOnDisk = 4

func newMachineFor(t *testing.T) machine {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err != nil || os.Geteuid() != 0 {
		t.Skip("the real fwupdtool is not installed here, or this is not root")
	}
	m := machine{dir: t.TempDir(), tool: path}
	sys, vars := filepath.Join(m.dir, "sys"), filepath.Join(m.dir, "sys/firmware/efi/efivars")
	entry, dmi := filepath.Join(sys, "firmware/efi/esrt/entries/entry0"), filepath.Join(sys, "class/dmi/id")
	for _, dir := range []string{entry, dmi, vars, m.dir + "/esp/EFI/debian", m.dir + "/lock", m.dir + "/state", m.dir + "/cache", m.dir + "/proc/self"} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	put := func(dir, name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for name, value := range map[string]string{
		"fw_class": guid, "fw_type": "1", "fw_version": "34209794", "lowest_supported_fw_version": "33554432", "last_attempt_version": "0",
		"last_attempt_status": "0", "capsule_flags": "0",
	} {
		put(entry, name, value+"\n")
	}
	for name, value := range map[string]string{"bios_vendor": "Simulated", "bios_version": "2.10.2", "sys_vendor": "Simulated", "chassis_type": "23"} {
		put(dmi, name, value+"\n")
	}
	supported := binary.LittleEndian.AppendUint64([]byte{6, 0, 0, 0}, capsuleOnDisk)
	put(vars, strings.Replace(osIndications, "%s", "Supported", 1), string(supported))
	m.env = []string{
		"FWUPD_SYSFSFWDIR=" + sys + "/firmware", "FWUPD_SYSFSDMIDIR=" + dmi, "FWUPD_LOCKDIR=" + m.dir + "/lock",
		"STATE_DIRECTORY=" + m.dir + "/state", "CACHE_DIRECTORY=" + m.dir + "/cache",
		"FWUPD_UEFI_TEST=1", // the variables are a directory, not a file system
	}
	return m
}

// Run runs the real tool on the machine.
func (m machine) Run(ctx context.Context, c command.Command) (command.Result, error) {
	r, err := command.NewExecRunner(command.Config{Path: []string{filepath.Dir(m.tool)}, StateDir: m.dir})
	if err != nil {
		return command.Result{}, err
	}
	for i, e := range c.Env { // the tests' partition is not mounted where the driver believes it to be
		c.Env[i] = strings.Replace(e, "FWUPD_UEFI_ESP_PATH=/boot/efi", "FWUPD_UEFI_ESP_PATH="+m.dir+"/esp", 1)
	}
	c.Env = append(c.Env, m.env...)
	return r.Run(ctx, c)
}

func (m machine) mount(t *testing.T) {
	t.Helper()
	const line = "98 27 8:1 / /boot/efi rw,relatime shared:58 - vfat /dev/sda1 rw,fmask=0077,codepage=437\n"
	require.NoError(t, os.WriteFile(m.dir+"/proc/self/mountinfo", []byte(line), 0o600))
}

func (m machine) capsules(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(m.dir + "/esp/EFI/UpdateCapsule/*")
	require.NoError(t, err)
	return found
}

// The real tool, without D-Bus, without metadata and in a directory of its own: what the driver tells it is enough to leave the capsule on
// the partition and to ask the firmware for it.
func TestTheRealFwupdtoolStagesACapsule(t *testing.T) {
	m := newMachineFor(t)
	img := drivertest.SaveImage(t, "2.10.3", simhost.BuildImage(simhost.BIOSImage, simhost.ImageOptions{Version: "2.10.3", GUID: guid}))

	d := New(m, os.DirFS(m.dir)).Keep(m.dir + "/daemon")
	err := d.Check(t.Context(), id, img)
	require.ErrorContains(t, err, "ESP partition not detected", "it has to be told where the partition is")
	require.ErrorContains(t, err, "mount it at /boot/efi on the host")
	assert.NotErrorAs(t, err, new(*driver.RejectedError))

	m.mount(t)
	untold := New(m, os.DirFS(m.dir))
	_, err = untold.Write(t.Context(), id, img, nil)
	require.ErrorContains(t, err, "formats were different", "it has to be told the format of versions")
	require.Empty(t, m.capsules(t))

	require.NoError(t, d.Check(t.Context(), id, img))
	need, err := d.Write(t.Context(), id, img, nil)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, need)
	require.Len(t, m.capsules(t), 1)
	asked, err := os.ReadFile(filepath.Join(m.dir, "sys/firmware/efi/efivars", strings.Replace(osIndications, "%s", "", 1)))
	require.NoError(t, err)
	require.Len(t, asked, 12)
	assert.EqualValues(t, capsuleOnDisk, binary.LittleEndian.Uint64(asked[4:]), "the firmware is asked to look there")

	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.Version("2.10.2"), fw.Running)
	assert.Equal(t, inventory.Version("2.10.3"), fw.Stored, "the reboot brings it")
	need, err = d.Write(t.Context(), id, img, nil)
	require.NoError(t, err, "what is staged is not staged again")
	assert.Equal(t, inventory.ActivateReboot, need)
}
