package nvme_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin/admintest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/nvmetool"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// asTool makes the test binary the tool that writes, on the drive of a directory.
const asTool = "-as-firmware-nvme"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == asTool {
		tool := nvmetool.Tool{Open: admintest.At(os.Args[2]).Open, Pause: time.Millisecond}
		os.Exit(tool.Run(os.Args[3:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

const model = "SIM NVMe 4 TB"

func able() admintest.State {
	return admintest.State{Node: "nvme7", Controller: nvmectrl.Controller{
		Profile:  nvmectrl.Profile{Model: model, Serial: "SN 0001", FWUG: 1, MDTS: 5, RestartsAtZero: true, Sanitizes: 5, SanitizeSteps: 4},
		Firmware: nvmectrl.NewFirmware(admintest.Slots("OLD00001", "", "")...),
	}}
}

// TestTheNativeDriverConforms proves R003-40.
func TestTheNativeDriverConforms(t *testing.T) {
	for name, change := range map[string]func(*admintest.State){
		"drive that resets": func(*admintest.State) {},
		"drive that activates without a reset": func(s *admintest.State) {
			s.Activation, s.MTFA, s.IgnoresResets = nvmectrl.Immediately, 5*time.Second, true
		},
		"drive that asks for a reboot": func(s *admintest.State) {
			s.Activation = nvmectrl.AtConventionalReset
		},
		"drive with two ports":              func(s *admintest.State) { s.TwoPorts = true },
		"drive with a read-only first slot": func(s *admintest.State) { s.FirstSlotReadOnly = true },
		"drive that cannot be sanitized":    func(s *admintest.State) { s.Sanitizes = 0 },
		"drive with one slot":               func(s *admintest.State) { s.Slots = s.Slots[:1] },
		"drive that does not say what is staged": func(s *admintest.State) {
			s.HidesNext = true
		},
		"drive that activates without a reset and does not say what is staged": func(s *admintest.State) {
			s.HidesNext, s.Activation, s.MTFA, s.IgnoresResets = true, nvmectrl.Immediately, 5*time.Second, true
		},
		"drive that asks for a reboot and does not say what is staged": func(s *admintest.State) {
			s.HidesNext, s.Activation = true, nvmectrl.AtConventionalReset
		},
		"drive with one slot that does not say what is staged": func(s *admintest.State) {
			s.HidesNext, s.Slots = true, s.Slots[:1]
		},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.Run(t, func(t *testing.T) drivertest.Harness {
				t.Parallel()
				s := able()
				change(&s)
				return harness(t, s)
			})
		})
	}
}

// rig is a drive, and the driver that writes to it in processes of its own.
func rig(t *testing.T, s admintest.State) (*admintest.Drive, *nvme.Driver, *command.ExecRunner) {
	t.Helper()
	dir := t.TempDir()
	drive, err := admintest.New(dir, s)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	runner, err := command.NewExecRunner(command.Config{
		Path: []string{t.TempDir()}, StateDir: t.TempDir(),
		Own: map[string][]string{nvmetool.Name: {self, asTool, dir}},
	})
	require.NoError(t, err)
	return drive, nvme.NewNative(runner, drive.Open), runner
}

func identity(s admintest.State) inventory.Identity {
	return inventory.Identity{Class: inventory.Disk, UniqueID: "eui.0001", Node: s.Node, Kernel: "nvme", Transport: "nvme"}
}

func image(t *testing.T, revision inventory.Version) driver.Image {
	return drivertest.SaveImage(t, revision, admintest.ImageBytes(model, string(revision)))
}

func harness(t *testing.T, s admintest.State) drivertest.Harness {
	t.Helper()
	drive, d, runner := rig(t, s)
	whole := admintest.ImageBytes(model, "NEW00001")
	fault := func(f admintest.Fault, text string) func(*testing.T) {
		return func(t *testing.T) { require.NoError(t, drive.SetFault(f, text)) }
	}
	return drivertest.Harness{
		Driver:     d,
		ID:         identity(s),
		Image:      image(t, "NEW00001"),
		Other:      image(t, "NEW2"),
		Previous:   image(t, inventory.Version(s.Running.Revision)),
		WrongBoard: drivertest.SaveImage(t, "NEW00001", admintest.ImageBytes("OTHER MODEL", "NEW00001")),
		Damaged:    drivertest.SaveImage(t, "NEW00001", whole[:len(whole)-4096]),
		Reboot:     func(t *testing.T) { require.NoError(t, drive.PowerCycle()) },
		Garbage:    fault(admintest.Garbage, ""),
		Unreadable: fault(admintest.Gone, ""),
		FailWrite:  func(t *testing.T, text string) { fault(admintest.Fail, text)(t) },
		LieWrite:   fault(admintest.Lie, ""),
		HangWrite: func(t *testing.T) (func() bool, func()) {
			fault(admintest.Hang, "")(t)
			return drive.Hangs, func() { require.NoError(t, drive.ClearFault(admintest.Hang)) }
		},
		WriteRunning: func(t *testing.T, lock string) bool {
			running, err := runner.WriteRunning(lock)
			require.NoError(t, err)
			return running
		},
		FailRead: func(*testing.T) {},
		FailErase: func(t *testing.T) {
			require.NoError(t, drive.Change(func(s *admintest.State) { s.Sanitize.Fails = true }))
		},
		Stored: func(t *testing.T) inventory.Version {
			stored, err := drive.Stored()
			require.NoError(t, err)
			return inventory.Version(stored)
		},
	}
}

// state is what the drive is and holds now.
func state(t *testing.T, d *admintest.Drive) admintest.State {
	t.Helper()
	s, err := d.State()
	require.NoError(t, err)
	return s
}
