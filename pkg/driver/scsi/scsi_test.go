package scsi

import (
	"context"
	"slices"
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

var id = inventory.Identity{Class: inventory.Disk, Transport: "sas", Node: "sg0", Kernel: "sd", UniqueID: "naa.5000c500d0000000"}

// drive plays a drive. Answers of one command are given in turn, the last one again and again.
type drive struct {
	inquiry, serial []command.Result
	takes           []mode
	opcodes         command.Result
	// refuses are modes that it does not answer for, though it does for others.
	refuses []mode
	// noActions refuses the question for single modes.
	noActions          bool
	page, descriptor   command.Result
	download, activate []command.Result
}

func newDrive(t *testing.T, takes ...mode) *drive {
	return &drive{
		inquiry: []command.Result{{Stdout: golden(t, "inquiry.bin")}}, serial: []command.Result{{Stdout: golden(t, "serial.bin")}},
		page: command.Result{ExitCode: exitNoPage}, descriptor: command.Result{ExitCode: exitInvalidOpcode},
		takes: takes, download: []command.Result{{}}, activate: []command.Result{{}},
	}
}

func next(results *[]command.Result) command.Result {
	r := (*results)[0]
	if len(*results) > 1 {
		*results = (*results)[1:]
	}
	return r
}

func (d *drive) runner(t *testing.T) *commandtest.Runner {
	supported, unsupported := golden(t, "opcodes-supported.bin"), golden(t, "opcodes-unsupported.bin")
	return commandtest.NewRunner(t, map[string]commandtest.Tool{
		"sg_inq": func(_ context.Context, c command.Command) (command.Result, error) {
			if slices.Contains(c.Argv, "--page=0x80") {
				return next(&d.serial), nil
			}
			if slices.Contains(c.Argv, "--page=0x86") {
				return d.page, nil
			}
			return next(&d.inquiry), nil
		},
		"sg_read_buffer": func(context.Context, command.Command) (command.Result, error) { return d.descriptor, nil },
		"sg_opcodes": func(_ context.Context, c command.Command) (command.Result, error) {
			if d.opcodes.ExitCode != 0 {
				return d.opcodes, nil
			}
			single := !slices.Contains(c.Argv, "--opcode=0x3b")
			if single == d.noActions {
				return command.Result{ExitCode: exitIllegalRequest}, nil
			}
			if !single {
				return command.Result{Stdout: supported}, nil
			}
			if slices.ContainsFunc(d.refuses, func(m mode) bool { return slices.Equal(c.Argv, supports("/dev/sg0", m).Argv) }) {
				return command.Result{ExitCode: exitIllegalRequest}, nil
			}
			for _, m := range d.takes {
				if slices.Equal(c.Argv, supports("/dev/sg0", m).Argv) {
					return command.Result{Stdout: supported}, nil
				}
			}
			return command.Result{Stdout: unsupported}, nil
		},
		"sg_write_buffer": func(_ context.Context, c command.Command) (command.Result, error) {
			if slices.Contains(c.Argv, "--mode=activate_mc") {
				return next(&d.activate), nil
			}
			return next(&d.download), nil
		},
	})
}

// writes are the commands that were to change the drive.
func writes(r *commandtest.Runner) []string {
	return slices.DeleteFunc(r.Lines(), func(line string) bool { return !strings.HasPrefix(line, "sg_write_buffer") })
}

func revision(t *testing.T, v string) command.Result {
	return command.Result{Stdout: with(golden(t, "inquiry.bin"), 32, v)}
}

func attention() command.Result {
	return command.Result{ExitCode: 6, Stderr: []byte("sg_inq failed: Unit attention\n")}
}

func TestSupportIsForSASAlone(t *testing.T) {
	d := New(nil)
	assert.Equal(t, driver.SupportMainline, d.Support(id))
	for _, transport := range []string{"sata", "nvme", "usb", "virtio", ""} {
		other := id
		other.Transport = transport
		assert.Equal(t, driver.SupportNone, d.Support(other), transport)
	}
	gone := id
	gone.Node = ""
	assert.Equal(t, driver.SupportNone, d.Support(gone))
}

func TestInspectReadsTheDriveItself(t *testing.T) {
	got, fw, err := New(newDrive(t, modeSave, modeDefer, modeActivate).runner(t)).Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, "SEAGATE", got.Vendor)
	assert.Equal(t, "ST16000NM006J", got.Model)
	assert.Equal(t, "ZR5000000000C2048", got.SerialNumber)
	assert.Equal(t, id.UniqueID, got.UniqueID)
	assert.NotEmpty(t, fw.RollbackMessage)
	fw.RollbackMessage = ""
	assert.Equal(t, inventory.Firmware{Running: "E004", Activation: inventory.ActivateDeviceReset, Format: inventory.FormatPlain, Rollback: inventory.RollbackImage}, fw)

	nameless := id
	nameless.UniqueID = ""
	got, _, err = New(newDrive(t).runner(t)).Inspect(t.Context(), nameless)
	require.NoError(t, err)
	assert.Equal(t, "SEAGATE-ST16000NM006J-ZR5000000000C2048", got.UniqueID)
}

// RAID volumes and virtual disks look like SAS drives.
func TestADriveThatNamesNoModeIsReadButNeverWritten(t *testing.T) {
	for name, code := range map[string]int{"modes are not supported": 0, "the question is refused": 5, "the question is unknown": 9} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, modeActivate)
			d.opcodes.ExitCode = code
			r := d.runner(t)
			_, fw, err := New(r).Inspect(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, inventory.Version("E004"), fw.Running)
			assert.NotEmpty(t, fw.ReadOnly)
			assert.Equal(t, inventory.RollbackNone, fw.Rollback)
			assert.NotEmpty(t, fw.RollbackMessage)
			img := drivertest.SaveImage(t, "E005", make([]byte, 4096))
			require.ErrorAs(t, New(r).Check(t.Context(), id, img), new(*driver.RejectedError))
			_, err = New(r).Write(t.Context(), id, img, nil)
			require.ErrorIs(t, err, driver.ErrNotSupported)
			assert.Empty(t, writes(r))
		})
	}
}

// A drive whose WRITE BUFFER has no service actions answers the question for single modes with Invalid Field.
func TestADriveWithoutServiceActionsIsWrittenAsItSaysOtherwise(t *testing.T) {
	img := drivertest.SaveImage(t, "E005", make([]byte, 4096))
	for name, c := range map[string]struct {
		page  command.Result
		after string
		need  inventory.Activation
		mode  string
	}{
		"lists its modes":                         {command.Result{Stdout: page(map[int]byte{12: 0x10, 19: 0x16})}, "E004", inventory.ActivateDeviceReset, "dmc_offs_defer"},
		"takes the command, and says no more":     {command.Result{ExitCode: exitNoPage}, "E005", inventory.ActivateNone, "dmc_offs_save"},
		"takes it, and saved microcode must wait": {command.Result{Stdout: page(map[int]byte{4: 0x80})}, "E004", inventory.ActivateReboot, "dmc_offs_save"},
		"lets a hard reset activate":              {command.Result{Stdout: page(map[int]byte{12: 0xd0, 19: 0x08})}, "E004", inventory.ActivateReboot, "dmc_offs_ev_defer --specific=6"},
		"lets a power-on alone activate":          {command.Result{Stdout: page(map[int]byte{12: 0x90, 19: 0x08})}, "E004", inventory.ActivatePowerCycle, "dmc_offs_ev_defer --specific=4"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t)
			d.noActions, d.page = true, c.page
			d.inquiry = []command.Result{revision(t, "E004"), revision(t, c.after)}
			r := d.runner(t)
			need, err := New(r).Write(t.Context(), id, img, nil)
			require.NoError(t, err)
			assert.Equal(t, c.need, need)
			require.Len(t, writes(r), 1)
			assert.Contains(t, writes(r)[0], "--mode="+c.mode+" --bpw=4096")
		})
	}
	d := newDrive(t)
	d.noActions, d.page = true, command.Result{Stdout: page(map[int]byte{12: 0x10})}
	_, fw, err := New(d.runner(t)).Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.NotEmpty(t, fw.ReadOnly, "it lists its modes, and none of those that are needed")
}

// sg3_utils exit with 0 after an option that they do not know. Nothing was written then.
func TestATooOldToolIsNoSuccess(t *testing.T) {
	d := newDrive(t, modeDefer, modeActivate)
	d.download = []command.Result{{Stderr: []byte("sg_write_buffer: unrecognized option '--bpw=4096'\nUsage: sg_write_buffer [--help] DEVICE\n")}}
	_, err := New(d.runner(t)).Write(t.Context(), id, drivertest.SaveImage(t, "E005", make([]byte, 4096)), nil)
	require.ErrorContains(t, err, "sg3_utils 1.46 or newer is needed")
}

func TestPiecesAreAsDriveAsks(t *testing.T) {
	img := drivertest.SaveImage(t, "E005", make([]byte, 128<<10))
	d := newDrive(t, modeDefer, modeActivate)
	d.descriptor = command.Result{Stdout: []byte{0x0f, 0x10, 0, 0}}
	r := d.runner(t)
	_, err := New(r).Write(t.Context(), id, img, nil)
	require.NoError(t, err)
	require.Len(t, writes(r), 1)
	assert.Contains(t, writes(r)[0], "--bpw=32768 --length=131072")

	d.descriptor = command.Result{Stdout: []byte{0xff, 0x10, 0, 0}}
	_, fw, err := New(r).Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Contains(t, fw.ReadOnly, "in one command only")
	_, err = New(r).Write(t.Context(), id, img, nil)
	require.ErrorIs(t, err, driver.ErrNotSupported)
	assert.Len(t, writes(r), 1)
}

func TestReadsWithoutSerialPage(t *testing.T) {
	for _, code := range []int{5, 9, 83} {
		d := newDrive(t, modeDefer)
		d.serial = []command.Result{{ExitCode: code}}
		known := id
		known.SerialNumber = "FROM SYSFS"
		got, _, err := New(d.runner(t)).Inspect(t.Context(), known)
		require.NoError(t, err)
		assert.Equal(t, "FROM SYSFS", got.SerialNumber)
	}
}

// sg2 may be another drive by now.
func TestAnotherDriveUnderTheSameNameIsLeftAlone(t *testing.T) {
	r := newDrive(t, modeDefer, modeActivate).runner(t)
	known := id
	known.SerialNumber = "ANOTHER"
	_, fw, err := New(r).Inspect(t.Context(), known)
	require.ErrorContains(t, err, "another drive")
	assert.Zero(t, fw)
	_, err = New(r).Write(t.Context(), known, drivertest.SaveImage(t, "E005", make([]byte, 4096)), nil)
	require.ErrorContains(t, err, "another drive")
	_, err = New(r).Activate(t.Context(), known, inventory.ActivateDeviceReset)
	require.ErrorContains(t, err, "another drive")
	assert.Empty(t, writes(r))
}

func TestCheckKnowsDrivesLimits(t *testing.T) {
	d := New(newDrive(t, modeDefer, modeActivate).runner(t))
	require.NoError(t, d.Check(t.Context(), id, drivertest.SaveImage(t, "E005", make([]byte, 4096))))
	for name, img := range map[string]driver.Image{
		"empty":          drivertest.SaveImage(t, "E005", nil),
		"not aligned":    drivertest.SaveImage(t, "E005", make([]byte, 4098)),
		"too large":      drivertest.SaveImage(t, "E005", make([]byte, maxImage+4)),
		"a long version": drivertest.SaveImage(t, "E005x", make([]byte, 4096)),
	} {
		assert.ErrorAs(t, d.Check(t.Context(), id, img), new(*driver.RejectedError), name)
	}
	changed := drivertest.SaveImage(t, "E005", make([]byte, 4096))
	changed.Digest[0]++
	assert.ErrorIs(t, d.Check(t.Context(), id, changed), command.ErrImage)
}

func TestWriteDefersRatherThanToActivateAtOnce(t *testing.T) {
	img := drivertest.SaveImage(t, "E005", make([]byte, 4096))
	for name, c := range map[string]struct {
		takes []mode
		after string
		need  inventory.Activation
		mode  string
	}{
		"defers and activates":    {[]mode{modeSave, modeDefer, modeActivate}, "E004", inventory.ActivateDeviceReset, "dmc_offs_defer"},
		"defers to a reboot":      {[]mode{modeSave, modeDefer}, "E004", inventory.ActivateReboot, "dmc_offs_defer"},
		"saves and activates":     {[]mode{modeSave}, "E005", inventory.ActivateNone, "dmc_offs_save"},
		"saves and waits":         {[]mode{modeSave}, "E004", inventory.ActivateReboot, "dmc_offs_save"},
		"saves, cannot defer yet": {[]mode{modeSave, modeActivate}, "E005", inventory.ActivateNone, "dmc_offs_save"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, c.takes...)
			d.inquiry = []command.Result{revision(t, "E004"), attention(), revision(t, c.after)}
			r := d.runner(t)
			need, err := New(r).Write(t.Context(), id, img, nil)
			require.NoError(t, err)
			assert.Equal(t, c.need, need)
			require.Len(t, writes(r), 1)
			assert.Contains(t, writes(r)[0], "--mode="+c.mode+" --bpw=4096 --length=4096")
		})
	}
}

func TestNeverPadsChangedImage(t *testing.T) {
	r := newDrive(t, modeDefer, modeActivate).runner(t)
	img := drivertest.SaveImage(t, "E005", make([]byte, 4096))
	img.Size += 4
	_, err := New(r).Write(t.Context(), id, img, nil)
	require.ErrorIs(t, err, command.ErrImage)
	assert.Empty(t, r.Lines())
}

func TestSwallowsOneUnitAttention(t *testing.T) {
	d := newDrive(t, modeDefer, modeActivate)
	d.inquiry = []command.Result{attention(), revision(t, "E004")}
	d.download = []command.Result{attention(), {}}
	r := d.runner(t)
	need, err := New(r).Write(t.Context(), id, drivertest.SaveImage(t, "E005", make([]byte, 4096)), nil)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateDeviceReset, need)
	assert.Len(t, writes(r), 2, "the whole download again")

	d.download = []command.Result{attention()}
	_, err = New(r).Write(t.Context(), id, drivertest.SaveImage(t, "E005", make([]byte, 4096)), nil)
	require.ErrorContains(t, err, "unit attention")
	assert.Len(t, writes(r), 4, "once")
	d.inquiry = []command.Result{attention()}
	_, _, err = New(r).Inspect(t.Context(), id)
	require.ErrorContains(t, err, "unit attention")
}

func TestActivateReadsWhatRunsThen(t *testing.T) {
	nothing := command.Result{ExitCode: 5, Stderr: golden(t, "activate-1.46-nothing.txt")}
	for name, c := range map[string]struct {
		answer command.Result
		after  string
		need   inventory.Activation
	}{
		"the new revision runs":      {command.Result{}, "E005", inventory.ActivateNone},
		"the old one still runs":     {command.Result{}, "E004", inventory.ActivateReboot},
		"nothing waits":              {nothing, "E004", inventory.ActivateNone},
		"the drive does not want to": {command.Result{ExitCode: 5, Stderr: golden(t, "download-1.46-field.txt")}, "E004", inventory.ActivateReboot},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, modeDefer, modeActivate)
			d.inquiry = []command.Result{revision(t, "E004"), attention(), revision(t, c.after)}
			d.activate = []command.Result{c.answer}
			r := d.runner(t)
			need, err := New(r).Activate(t.Context(), id, inventory.ActivateDeviceReset)
			require.NoError(t, err)
			assert.Equal(t, c.need, need)
			assert.Equal(t, []string{"sg_write_buffer -v --mode=activate_mc --timeout=1200 /dev/sg0"}, writes(r))
		})
	}
	d := newDrive(t, modeDefer, modeActivate)
	d.activate = []command.Result{{ExitCode: 75, Stderr: golden(t, "activate-1.46-no-scsi.txt")}}
	_, err := New(d.runner(t)).Activate(t.Context(), id, inventory.ActivateDeviceReset)
	require.ErrorContains(t, err, "Inappropriate ioctl")
	r := newDrive(t, modeDefer).runner(t)
	_, err = New(r).Activate(t.Context(), id, inventory.ActivateDeviceReset)
	require.ErrorIs(t, err, driver.ErrNotSupported)
	assert.Empty(t, writes(r))
}

// A drive that is older than a mode may refuse the question for it: what it answered for the others still holds, and an image is
// not made to run in the middle of a write because of it.
func TestADriveThatRefusesTheQuestionForOneModeKeepsTheOthers(t *testing.T) {
	d := newDrive(t, modeSave, modeDefer, modeActivate)
	d.refuses = []mode{modeSelect}
	r := d.runner(t)
	_, err := New(r).Write(t.Context(), id, drivertest.SaveImage(t, "E005", make([]byte, 4096)), nil)
	require.NoError(t, err)
	require.Len(t, writes(r), 1)
	assert.Contains(t, writes(r)[0], "dmc_offs_defer")
}

func TestSaysWhichDriveStartsAnImageAtTheWrite(t *testing.T) {
	for want, takes := range map[bool][]mode{true: {modeSave, modeActivate}, false: {modeSave, modeDefer}} {
		_, fw, err := New(newDrive(t, takes...).runner(t)).Inspect(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, want, fw.AtWrite)
	}
}
