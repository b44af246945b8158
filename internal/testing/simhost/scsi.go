package simhost

import "slices"

// scsiState is the microcode of a SCSI disk: the one that runs and a deferred one.
type scsiState struct {
	Running flash
	// Deferred is empty when nothing waits.
	Deferred flash
	// UnitAttention is reported once, to the next command.
	UnitAttention bool `json:",omitempty"`
	// SysfsRevision is the revision the kernel read when it found the disk.
	SysfsRevision string
}

// takes reports whether the disk supports WRITE BUFFER in the mode.
func (d SCSI) takes(mode int) bool {
	if len(d.Modes) > 0 {
		return slices.Contains(d.Modes, mode)
	}
	return mode == modeSave || mode == modeDefer || mode == modeActivate && d.Activation == DeviceReset
}

func newSCSI(d SCSI) *scsiState {
	f := flash{Version: d.Version, Digest: digest(BuildImage(SCSIImage, ImageOptions{Version: d.Version, Model: d.Model}))}
	return &scsiState{Running: f, SysfsRevision: d.Version}
}

// activate makes complete deferred microcode run, and reports whether there was any.
func (d *scsiState) activate() bool {
	f := d.Deferred
	if f.Version == "" || f.Torn {
		return false
	}
	d.Running, d.Deferred = f, flash{}
	return true
}

func (d *scsiState) boot(b boot, need Activation) {
	if !b.refuse && b.activates(need) {
		d.activate()
	}
	if b.refuse || d.Deferred.Torn {
		d.Deferred = flash{}
	}
	d.UnitAttention = false
	if !b.stale {
		d.SysfsRevision = d.Running.Version
	}
}

func (d *scsiState) describe(out *Device) {
	out.Running, out.RunningDigest = d.Running.Version, d.Running.Digest
	out.Stored, out.StoredDigest = out.Running, out.RunningDigest
	if d.Deferred.Version != "" && !d.Deferred.Torn {
		out.Stored, out.StoredDigest = d.Deferred.Version, d.Deferred.Digest
	}
	out.Torn = d.Deferred.Torn
}

func (s *state) scsi(key string) SCSI {
	for _, d := range s.Spec.SCSI {
		if d.Key == key {
			return d
		}
	}
	return SCSI{}
}
