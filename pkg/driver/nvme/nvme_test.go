package nvme

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

var id = inventory.Identity{Class: inventory.Disk, Transport: "nvme", Node: "nvme0", Kernel: "nvme"}

// drive plays a drive that answers its queries from files. Its reset and commit do what the test wants.
type drive struct{ identify, log, commit, download, reset, sanitize command.Result }

func newDrive(t *testing.T, identify, log string) *drive {
	return &drive{
		identify: command.Result{Stdout: []byte(golden(t, identify))},
		log:      command.Result{Stdout: []byte(golden(t, log))},
		commit:   command.Result{Stdout: []byte(golden(t, "fw-commit-2.3-ok.txt"))},
	}
}

func (d *drive) runner(t *testing.T) *commandtest.Runner {
	return commandtest.NewRunner(t, map[string]commandtest.Tool{
		"nvme": func(_ context.Context, c command.Command) (command.Result, error) {
			return map[string]command.Result{
				"id-ctrl": d.identify, "fw-log": d.log, "fw-download": d.download, "fw-commit": d.commit, "reset": d.reset, "sanitize": d.sanitize,
			}[c.Argv[1]], nil
		},
	})
}

func TestSupport(t *testing.T) {
	d := New(nil)
	assert.Equal(t, driver.SupportMainline, d.Support(id))
	sas := id
	sas.Transport = "sas"
	assert.Equal(t, driver.SupportNone, d.Support(sas))
	gone := id
	gone.Node = ""
	assert.Equal(t, driver.SupportNone, d.Support(gone))
}

func TestInspectReadsDriveAndSlots(t *testing.T) {
	got, fw, err := New(newDrive(t, "id-ctrl-2.3-samsung.json", "fw-log-2.13-pending.json").runner(t)).Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, "SAMSUNG MZQL23T8HCLS-00A07", got.Model)
	assert.Equal(t, "S64HNE0T000000", got.SerialNumber)
	assert.Equal(t, "144d-SAMSUNG-MZQL23T8HCLS-00A07-S64HNE0T000000", got.UniqueID, "without a WWID in sysfs")
	assert.Equal(t, inventory.Firmware{
		Running: "GDC5602Q", Stored: "GDC5902Q", Activation: inventory.ActivateDeviceReset,
		Slots: []inventory.Slot{
			{Number: 1, Version: "GDC5602Q", State: inventory.SlotActive},
			{Number: 2, Version: "GDC5902Q", State: inventory.SlotPending},
			{Number: 3, State: inventory.SlotIdle},
		},
		Rollback: inventory.RollbackSlot,
	}, fw)
}

func TestSysfsWWIDStaysUniqueID(t *testing.T) {
	known := id
	known.UniqueID = "eui.36344830545000000025384500000001"
	got, _, err := New(newDrive(t, "id-ctrl-2.3-samsung.json", "fw-log-2.13-pending.json").runner(t)).Inspect(t.Context(), known)
	require.NoError(t, err)
	assert.Equal(t, known.UniqueID, got.UniqueID)
}

func TestADriveThatTakesNoFirmwareIsReadButNotWritten(t *testing.T) {
	r := newDrive(t, "id-ctrl-2.3-qemu.json", "fw-log-2.3-qemu.json").runner(t)
	_, fw, err := New(r).Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.Version("1.0"), fw.Running)
	assert.NotEmpty(t, fw.ReadOnly)
	_, err = New(r).Write(t.Context(), id, driver.Image{Path: "/i", Version: "2.0"}, nil)
	require.ErrorIs(t, err, driver.ErrNotSupported)
	for _, line := range r.Lines() {
		assert.NotContains(t, line, "fw-download")
	}
}

func TestADriveThatTakesNoFirmwareNeedsNoSlotLog(t *testing.T) {
	refused := command.Result{ExitCode: 1, Stderr: []byte("NVMe status: Invalid Log Page: The log page indicated is invalid(0x4109)\n")}
	d := newDrive(t, "id-ctrl-2.3-qemu.json", "fw-log-2.3-qemu.json")
	d.log = refused
	_, fw, err := New(d.runner(t)).Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.Version("1.0"), fw.Running)
	assert.NotEmpty(t, fw.ReadOnly)

	d = newDrive(t, "id-ctrl-2.3-samsung.json", "fw-log-2.13-pending.json")
	d.log = refused
	_, _, err = New(d.runner(t)).Inspect(t.Context(), id)
	require.ErrorContains(t, err, "read firmware slots of /dev/nvme0")
	d = newDrive(t, "id-ctrl-2.3-qemu.json", "fw-log-2.3-qemu.json")
	d.log = command.Result{ExitCode: 1, Stderr: []byte("fw-log: Input/output error\n")}
	_, _, err = New(d.runner(t)).Inspect(t.Context(), id)
	require.Error(t, err, "the drive has not said that it has no log")
}

func TestTheDriverKnowsThatItsToolIsNotInstalled(t *testing.T) {
	runner, err := command.NewExecRunner(command.Config{Path: []string{t.TempDir()}})
	require.NoError(t, err)
	for _, d := range []*Driver{New(runner), NewNative(runner, nil)} {
		require.ErrorIs(t, d.Usable(), command.ErrNotFound)
	}
	own, err := command.NewExecRunner(command.Config{Path: []string{t.TempDir()}, Own: map[string][]string{"firmware-nvme": {"/proc/self/exe"}}})
	require.NoError(t, err)
	require.NoError(t, NewNative(own, nil).Usable())
}

// It must be known before a node is drained for it.
func TestADriveThatCouldOnlyOverwriteWhatItRunsIsReadOnly(t *testing.T) {
	d := newDrive(t, "id-ctrl-2.3-samsung.json", "fw-log-2.13-pending.json")
	d.identify.Stdout = regexp.MustCompile(`"frmw"\s*:\s*\d+`).ReplaceAll(d.identify.Stdout, []byte(`"frmw":5`)) // two slots, the first read-only
	d.log.Stdout = []byte(`{"nvme0":{"Active Firmware Slot (afi)":2}}`)
	nvme := New(d.runner(t))
	_, fw, err := nvme.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Contains(t, fw.ReadOnly, "without overwriting the running one")
	img := drivertest.SaveImage(t, "NEW00001", make([]byte, 4096))
	require.ErrorAs(t, nvme.Check(t.Context(), id, img), new(*driver.RejectedError))
}

func TestWriteStagesInIdleSlot(t *testing.T) {
	d := newDrive(t, "id-ctrl-2.3-samsung.json", "fw-log-2.13-pending.json")
	d.commit = command.Result{ExitCode: 1, Stdout: []byte(golden(t, "fw-commit-2.3-conventional.txt"))}
	r := d.runner(t)
	need, err := New(r).Write(t.Context(), id, driver.Image{Path: "/i", Version: "GDC6002Q"}, nil)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, need)
	assert.Equal(t, []string{
		"nvme id-ctrl /dev/nvme0 -o json",
		"nvme fw-log /dev/nvme0 -o json",
		"nvme fw-download /dev/nvme0 --fw=/i --progress",
		"nvme fw-commit /dev/nvme0 --slot=2 --action=1",
	}, r.Lines())
}

func TestNeverCommitsFailedDownload(t *testing.T) {
	d := newDrive(t, "id-ctrl-2.3-samsung.json", "fw-log-2.13-pending.json")
	d.download = command.Result{ExitCode: 1, Stderr: []byte(golden(t, "fw-download-2.3-error.txt"))}
	r := d.runner(t)
	_, err := New(r).Write(t.Context(), id, driver.Image{Path: "/i", Version: "GDC6002Q"}, nil)
	require.ErrorContains(t, err, "Inappropriate ioctl")
	assert.NotContains(t, strings.Join(r.Lines(), "\n"), "fw-commit")
}

func TestADriveThatKeepsItsOldFirmwareOverAResetNeedsAReboot(t *testing.T) {
	r := newDrive(t, "id-ctrl-2.3-samsung.json", "fw-log-2.13-pending.json").runner(t)
	need, err := New(r).Activate(t.Context(), id, inventory.ActivateDeviceReset)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, need)
	assert.Contains(t, r.Lines(), "nvme reset /dev/nvme0")
}
