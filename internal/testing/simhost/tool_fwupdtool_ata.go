package simhost

import (
	"errors"
	"fmt"
	"slices"
)

// ataPlugin is fwupd's plugin for SATA drives.
const ataPlugin = "ata"

// capsulePlugin is fwupd's plugin for system firmware.
const capsulePlugin = "uefi_capsule"

// fwupdKey is the part that a command concerns, for faults: the drive it names, or the first one if only the plugin for
// drives is enabled, or the system firmware.
func (c *call) fwupdKey(o options) (string, error) {
	s, err := c.m.view()
	if err != nil {
		return "", err
	}
	if d, ok := fwupdDrive(s, o); ok {
		return d.Key, nil
	}
	if o.values["plugins"] == ataPlugin && len(s.Spec.SATA) > 0 {
		return s.Spec.SATA[0].Key, nil
	}
	return BIOSKey, nil
}

// fwupdDrive is the drive a command names. fwupd ignores drives that take no microcode.
func fwupdDrive(s *state, o options) (SATA, bool) {
	for _, d := range s.Spec.SATA {
		if slices.Contains(o.args[min(1, len(o.args)):], d.DeviceID()) && s.present(d.Key) && !d.NoDownload {
			return d, true
		}
	}
	return SATA{}, false
}

func fwupdDrives(s *state) []any {
	var out []any
	for _, d := range s.Spec.SATA {
		if !s.present(d.Key) || d.NoDownload {
			continue
		}
		flags := []any{"internal", updatable(d.Problems), "require-ac", "needs-reboot", "usable-during-update"}
		if s.SATA[d.Key].needsActivation() {
			flags = append(flags, "needs-activation")
		}
		drive := object{
			{"Name", d.Model}, {"DeviceId", d.DeviceID()}, {"InstanceIds", []any{d.instanceID()}}, {"Guid", []any{d.GUID()}},
			{"Serial", d.Serial}, {"Summary", "ATA drive"}, {"Plugin", ataPlugin}, {"Protocols", []any{"org.t13.ata"}},
			{"Flags", flags}, {"Vendor", d.Vendor}, {"VendorIds", []any{"ATA:0x1344"}}, {"Version", s.SATA[d.Key].Running.Version},
			{"VersionFormat", "plain"}, {"Icons", []any{"drive-harddisk"}}, {"Created", 1768435200},
		}
		if len(d.Problems) > 0 {
			drive = append(drive, member{"Problems", toAny(d.Problems)})
		}
		out = append(out, drive)
	}
	return out
}

// needsActivation is fwupd's record of an install, dropped when the drive reports the version.
func (d *scsiState) needsActivation() bool {
	return d.Deferred.Version != "" && d.Deferred.Version != d.Running.Version
}

func fwupdInstallDrive(c *call, s *state, d SATA, o options) (*fwupdError, error) {
	img, size, problem := fwupdOpen(o.args[1])
	if problem == nil {
		problem = fwupdDriveRequirements(s, d, img, o)
	}
	if problem != nil {
		return problem, c.refused(d.Key, "Write", img, problem.message)
	}
	whole := flash{Version: img.Version, Digest: img.Digest}
	torn := whole
	torn.Torn = true
	err := c.do(job{
		op:    Operation{Device: d.Key, Action: "Write", Version: img.Version, Digest: img.Digest, Bytes: size},
		takes: s.Spec.WriteTime,
		begin: func(s *state) { s.SATA[d.Key].Deferred = torn },
		finish: func(s *state) {
			drive := s.SATA[d.Key]
			drive.Deferred = whole
			if d.Immediate {
				drive.activate()
			}
		},
	})
	if errors.Is(err, errBusy) {
		return &fwupdError{fwupdInternal, "another program writes to the device"}, nil
	}
	return nil, err
}

func fwupdDriveRequirements(s *state, d SATA, img Image, o options) *fwupdError {
	running := s.SATA[d.Key].Running.Version
	switch {
	case img.GUID != d.GUID():
		return &fwupdError{fwupdNotFound, "No supported devices found"}
	case len(d.Problems) > 0:
		return &fwupdError{fwupdNotSupported, fmt.Sprintf("Device %s [%s] does not currently allow updates", d.DeviceID(), d.Model)}
	case running == img.Version && !o.has("allow-reinstall"):
		return &fwupdError{fwupdNothingToDo, allInstalled}
	case running > img.Version && !o.has("allow-older"): // versions of the format "plain" are compared as text
		return &fwupdError{fwupdNothingToDo, allNewer}
	}
	return nil
}

// fwupdActivate activates downloaded microcode of the named drive, or of all.
func fwupdActivate(c *call, o options) (*fwupdError, error) {
	s, err := c.m.view()
	if err != nil {
		return nil, err
	}
	named, ok := fwupdDrive(s, o)
	found := false
	for _, d := range s.Spec.SATA {
		if len(o.args) > 1 && (!ok || d.Key != named.Key) || !s.present(d.Key) || !s.SATA[d.Key].needsActivation() {
			continue
		}
		found = true
		if d.Activation != DeviceReset {
			return &fwupdError{fwupdInternal, "failed to activate firmware: I/O error, ata_op=0x92 ata_status=0x51 ata_error=0x04"}, nil
		}
		waiting := s.SATA[d.Key].Deferred
		err := c.do(job{
			op:     Operation{Device: d.Key, Action: "Activate", Version: waiting.Version, Digest: waiting.Digest},
			takes:  s.Spec.ResetTime,
			finish: func(s *state) { s.SATA[d.Key].activate() },
		})
		if errors.Is(err, errBusy) {
			return &fwupdError{fwupdInternal, "another program writes to the device"}, nil
		}
		if err != nil {
			return nil, err
		}
	}
	if !found {
		return &fwupdError{fwupdNothingToDo, "No devices to activate"}, nil
	}
	return nil, nil
}
