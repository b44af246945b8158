package fwupd

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

var drive = inventory.Identity{
	Class: inventory.Disk, Transport: "sata", UniqueID: "naa.500a075100000001", Vendor: "ATA", Model: "Micron_5400_MTFD",
	SerialNumber: "231200000001", Node: "sg1", Kernel: "sd",
}

const (
	driveGUID = "5d8bf9bd-4a2c-5d3f-8f1e-0123456789ab"
	driveID   = "0123456789abcdef0123456789abcdef01234567"
)

// sataDrive is a drive whose microcode really changes, and what fwupdtool says of it.
type sataDrive struct {
	version, waiting string
	// identify, details, devices, install and activate replace the answer of a command that is well by default.
	identify, details, devices, install, activate *command.Result
	// ignores says that the activation has no effect.
	ignores bool
	// attentions is how many commands the drive answers with a unit attention first.
	attentions int
}

func (s *sataDrive) driver(t *testing.T) (*ATA, *commandtest.Runner) {
	or := func(other *command.Result, text string, effect func()) (command.Result, error) {
		if other != nil {
			return *other, nil
		}
		effect()
		return command.Result{Stdout: []byte(text)}, nil
	}
	none := func() {}
	r := commandtest.NewRunner(t, map[string]commandtest.Tool{
		"sg_sat_identify": func(context.Context, command.Command) (command.Result, error) {
			if s.attentions > 0 {
				s.attentions--
				return command.Result{ExitCode: exitUnitAttention, Stderr: []byte("Unit attention")}, nil
			}
			return or(s.identify, string(identifyData(s.version, nil)), none)
		},
		"fwupdtool": func(_ context.Context, c command.Command) (command.Result, error) {
			switch c.Argv[1] {
			case "get-devices":
				return or(s.devices, drives(drive.SerialNumber), none)
			case "get-details":
				return or(s.details, "└─Unknown Device:\n      GUID:             "+driveGUID+"\n      New version:      D4MU002\n", none)
			case "install":
				return or(s.install, "{}", func() { s.waiting = "D4MU002" })
			}
			return or(s.activate, "{}", func() {
				if !s.ignores {
					s.version = s.waiting
				}
			})
		},
	})
	return NewATA(r), r
}

// drives is get-devices with a drive for each serial number.
func drives(serials ...string) string {
	var list []string
	for _, s := range serials {
		list = append(list, `{"Name":"5400","DeviceId":"`+driveID+`","Guid":["`+strings.ToUpper(driveGUID)+`"],"Serial":"`+s+
			`","Plugin":"ata","Flags":["internal","updatable"],"Version":"D4MU001","VersionFormat":"plain"}`)
	}
	return `{"Devices":[` + strings.Join(list, ",") + `]}`
}

// identifyData is an answer to IDENTIFY DEVICE with its checksum.
func identifyData(version string, change func(set func(word int, v uint16))) []byte {
	out := make([]byte, identifySize)
	set := func(word int, v uint16) { out[2*word], out[2*word+1] = byte(v), byte(v>>8) }
	text := func(first, length int, s string) {
		s += strings.Repeat(" ", length-len(s))
		for i := 0; i < length; i += 2 {
			set(first+i/2, uint16(s[i])<<8|uint16(s[i+1]))
		}
	}
	text(10, 20, "231200000001")
	text(23, 8, version)
	text(27, 40, "Micron_5400_MTFDDAK960TGA")
	set(83, 0x7469)
	set(86, 0xb401)
	set(255, 0x00a5)
	if change != nil {
		change(set)
	}
	var sum byte
	for _, b := range out[:identifySize-1] {
		sum += b
	}
	out[identifySize-1] = -sum
	return out
}

func failing(exit int, code, message string) *command.Result {
	r := reply(exit, code, message)
	return &r
}

func TestATASupportsSATADrivesOnly(t *testing.T) {
	for transport, want := range map[string]driver.Support{"sata": driver.SupportMainline, "sas": driver.SupportNone, "nvme": driver.SupportNone, "usb": driver.SupportNone} {
		id := drive
		id.Transport = transport
		assert.Equal(t, want, NewATA(nil).Support(id), transport)
	}
	assert.Equal(t, driver.SupportNone, NewATA(nil).Support(inventory.Identity{Class: inventory.Disk, Transport: "sata"}), "the kernel has no device for it")
}

// sysfs has sixteen characters of the model and four of the version, read when the drive was found.
func TestADriveIsReadFromItself(t *testing.T) {
	d, r := (&sataDrive{version: "D4MU001"}).driver(t)
	got, fw, err := d.Inspect(t.Context(), drive)
	require.NoError(t, err)
	assert.Equal(t, "Micron_5400_MTFDDAK960TGA", got.Model)
	assert.Equal(t, drive.UniqueID, got.UniqueID)
	assert.Equal(t, inventory.Firmware{
		Running: "D4MU001", Activation: inventory.ActivateDeviceReset, Format: inventory.FormatPlain, Rollback: inventory.RollbackImage,
		RollbackMessage: "the firmware of a SATA drive cannot be read back: an archive of D4MU001 from a FirmwareSource is needed",
	}, fw)
	assert.Equal(t, []string{"sg_sat_identify --raw /dev/sg1"}, r.Lines(), "fwupd probes nothing at a scan")
}

func TestWritesDriveBySerialNumber(t *testing.T) {
	s := &sataDrive{version: "D4MU001"}
	d, r := s.driver(t)
	img := archive(t, "D4MU002")
	require.NoError(t, d.Check(t.Context(), drive, img))
	var percents []int
	need, err := d.Write(t.Context(), drive, img, func(p int) { percents = append(percents, p) })
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateDeviceReset, need)
	assert.Equal(t, []int{100}, percents)
	need, err = d.Activate(t.Context(), drive, need)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateNone, need)
	var writes []string
	for _, c := range r.Calls() {
		if c.Kind == command.Write {
			writes = append(writes, c.String())
			assert.Equal(t, drive.UniqueID, c.Lock)
			assert.NotContains(t, c.Argv, "--force")
		}
	}
	assert.Equal(t, []string{
		"fwupdtool install " + img.Path + " " + driveID + " --json --no-reboot-check --plugins ata --allow-older --allow-reinstall",
		"fwupdtool activate " + driveID + " --json --plugins ata",
	}, writes)
}

func TestWhatKeepsADriveFromBeingWrittenIsSaid(t *testing.T) {
	locked := command.Result{Stdout: []byte(strings.Replace(drives(drive.SerialNumber), `"updatable"`, `"updatable-hidden"`, 1))}
	inUse := command.Result{Stdout: []byte(strings.Replace(drives(drive.SerialNumber), `"Plugin"`, `"Problems":["in-use"],"Plugin"`, 1))}
	for name, c := range map[string]struct {
		change   func(*sataDrive)
		version  inventory.Version
		says     string
		rejected bool
	}{
		"it takes no microcode": {func(s *sataDrive) {
			s.identify = &command.Result{Stdout: identifyData("D4MU001", func(set func(int, uint16)) { set(86, 0xb400) })}
		}, "D4MU002", "takes no microcode", true},
		"the archive is for another model": {func(s *sataDrive) {
			s.details = &command.Result{Stdout: []byte("└─Unknown Device:\n      GUID:             " + guid + "\n      New version:      D4MU002\n")}
		}, "D4MU002", guid, true},
		"the archive has another version": {func(*sataDrive) {}, "D4MU003", "D4MU002", true},
		"no drive could show the version": {func(*sataDrive) {}, "D4MU002-rc1", "8 characters", true},
		"the archive is none":             {func(s *sataDrive) { s.details = failing(1, "7", "invalid magic") }, "D4MU002", "invalid magic", true},
		"fwupd does not list it":          {func(s *sataDrive) { s.devices = &command.Result{Stdout: []byte(drives("other"))} }, "D4MU002", "lists 0 drives", false},
		"fwupd lists two such drives": {func(s *sataDrive) {
			s.devices = &command.Result{Stdout: []byte(drives(drive.SerialNumber, drive.SerialNumber))}
		}, "D4MU002", "lists 2 drives", false},
		"fwupd does not update it":          {func(s *sataDrive) { s.devices = &locked }, "D4MU002", "not updatable", false},
		"it is in use":                      {func(s *sataDrive) { s.devices = &inUse }, "D4MU002", "in use", false},
		"it does not answer":                {func(s *sataDrive) { s.identify = &command.Result{ExitCode: 2, Stderr: []byte("Not ready")} }, "D4MU002", "Not ready", false},
		"it is another drive than was seen": {func(s *sataDrive) { s.identify = &command.Result{Stdout: otherDrive()} }, "D4MU002", "another drive now", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sataDrive{version: "D4MU001"}
			c.change(s)
			d, r := s.driver(t)
			err := d.Check(t.Context(), drive, archive(t, c.version))
			require.ErrorContains(t, err, c.says)
			if c.rejected {
				require.ErrorAs(t, err, new(*driver.RejectedError))
			} else {
				require.NotErrorAs(t, err, new(*driver.RejectedError))
				_, err = d.Write(t.Context(), drive, archive(t, c.version), nil)
				require.ErrorContains(t, err, c.says)
			}
			for _, call := range r.Calls() {
				assert.Equal(t, command.Query, call.Kind)
			}
		})
	}
}

func otherDrive() []byte {
	return identifyData("D4MU001", func(set func(int, uint16)) { set(10, uint16('9')<<8|uint16('9')) })
}

func TestClassifiesFailedDownload(t *testing.T) {
	for name, c := range map[string]struct {
		result   *command.Result
		rejected bool
	}{
		"the drive refused a piece": {failing(1, "0", "failed to write chunk 3: I/O error, ata_op=0x92"), false},
		"the archive is refused":    {failing(1, "11", "signature"), true},
		"the tool died":             {&command.Result{ExitCode: 139, Stderr: []byte("died")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := (&sataDrive{version: "D4MU001", install: c.result}).driver(t)
			_, err := d.Write(t.Context(), drive, archive(t, "D4MU002"), nil)
			if c.rejected {
				assert.ErrorAs(t, err, new(*driver.RejectedError))
			} else {
				assert.ErrorAs(t, err, new(*command.Error))
			}
		})
	}
}

// What the drive shows decides whether it was activated.
func TestActivateRereadsDrive(t *testing.T) {
	for name, c := range map[string]struct {
		drive sataDrive
		want  inventory.Activation
		fails string
	}{
		"it runs the new version":           {sataDrive{waiting: "D4MU002"}, inventory.ActivateNone, ""},
		"it shows the old one":              {sataDrive{waiting: "D4MU002", ignores: true}, inventory.ActivateReboot, ""},
		"it does not know the command":      {sataDrive{activate: failing(1, "0", "failed to activate firmware: I/O error")}, inventory.ActivateReboot, ""},
		"nothing waits":                     {sataDrive{activate: failing(2, "9", "No devices to activate")}, inventory.ActivateNone, ""},
		"its cache could not be flushed":    {sataDrive{activate: failing(1, "0", "failed to flush cache immediate: I/O error")}, 0, "flush cache"},
		"the tool says it by its exit code": {sataDrive{activate: &command.Result{ExitCode: 2}}, inventory.ActivateNone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.drive
			s.version = "D4MU001"
			d, _ := s.driver(t)
			need, err := d.Activate(t.Context(), drive, inventory.ActivateDeviceReset)
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, need)
		})
	}
}

func TestSwallowsOneUnitAttention(t *testing.T) {
	d, _ := (&sataDrive{version: "D4MU001", attentions: 1}).driver(t)
	_, _, err := d.Inspect(t.Context(), drive)
	require.NoError(t, err)
	d, _ = (&sataDrive{version: "D4MU001", attentions: 2}).driver(t)
	_, _, err = d.Inspect(t.Context(), drive)
	require.ErrorContains(t, err, "Unit attention")
}

func TestIdentifyRefusesNonDrive(t *testing.T) {
	torn := identifyData("D4MU001", nil)
	torn[40] ^= 1
	for name, out := range map[string][]byte{
		"nothing": nil, "too short": identifyData("D4MU001", nil)[:511], "wrong checksum": torn,
		"an ATAPI device": identifyData("D4MU001", func(set func(int, uint16)) { set(0, 0x8580) }),
		"no version":      identifyData("", nil),
		"no text":         identifyData("D4MU001", func(set func(int, uint16)) { set(23, 0x0102) }),
	} {
		_, err := parseIdentify(out)
		assert.Error(t, err, name)
	}
	got, err := parseIdentify(identifyData("D4MU001", func(set func(int, uint16)) { set(83, 0xffff) }))
	require.NoError(t, err)
	assert.Equal(t, identity{Model: "Micron_5400_MTFDDAK960TGA", Serial: "231200000001", Version: "D4MU001"}, got, "word 83 is not valid")
}

func FuzzParseIdentify(f *testing.F) {
	f.Add(identifyData("D4MU001", nil))
	f.Add([]byte("Segmentation fault"))
	f.Fuzz(func(t *testing.T, out []byte) {
		got, err := parseIdentify(out)
		if err != nil {
			assert.Zero(t, got)
			return
		}
		assert.NotEmpty(t, got.Version)
		assert.LessOrEqual(t, len(got.Version), maxVersion)
	})
}
