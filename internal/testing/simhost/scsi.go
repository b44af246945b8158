package simhost

import (
	"cmp"
	"slices"
)

// scsiState is the microcode of a SCSI disk: the one that runs and a deferred one.
type scsiState struct {
	Running flash
	// Deferred is empty when nothing waits.
	Deferred flash
	// Selected is set for deferred microcode of mode 0x0d, which only Events activate: 4 power-on and 2 hard reset.
	Selected bool `json:",omitempty"`
	Events   int  `json:",omitempty"`
	// UnitAttention is reported once, to the next command.
	UnitAttention bool `json:",omitempty"`
	Sanitize      scsiSanitize
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

// boundary is what the offsets of pieces are multiples of, in bytes; 0 where only offset 0 is allowed.
func (d SCSI) boundary() int {
	switch d.Boundary {
	case 0:
		return 512
	case onlyZero:
		return 0
	}
	return 1 << d.Boundary
}

// capacity is the largest piece in bytes.
func (d SCSI) capacity() int { return cmp.Or(d.Capacity, 1<<20) }

// onlyZero is the OFFSET BOUNDARY of a buffer whose only offset is 0.
const onlyZero = 0xff

// descriptor is the answer to READ BUFFER in mode 3 (SPC-5, 6.18.5).
func (d SCSI) descriptor() []byte {
	c := d.capacity()
	return []byte{byte(cmp.Or(d.Boundary, 9)), byte(c >> 16), byte(c >> 8), byte(c)}
}

// extended is the Extended INQUIRY Data page (SPC-5, 7.7.7).
func (d SCSI) extended() []byte {
	body := make([]byte, 60)
	body[0] = 2 << 6 // saved microcode runs after a reset
	if d.Activation == DeviceReset {
		body[0] = 1 << 6 // it runs when the last command ends
	}
	body[8] = byte(d.Events << 5)
	if d.ListsModes {
		body[8] |= 0x10
		for mode, bit := range map[int]byte{modeSave: 0x10, modeSelect: 0x08, modeDefer: 0x04, modeActivate: 0x02} {
			if d.takes(mode) {
				body[15] |= bit
			}
		}
	}
	return vpdPage(0x86, body)
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
	d.Running, d.Deferred, d.Selected, d.Events = f, flash{}, false, 0
	return true
}

func (d *scsiState) boot(b boot, need Activation) {
	activates := b.activates(need)
	if d.Selected {
		activates = d.Events&2 != 0 || d.Events&4 != 0 && b.kind == PowerCycle
	}
	if !b.refuse && activates {
		d.activate()
	}
	if b.refuse || d.Deferred.Torn {
		d.Deferred, d.Selected, d.Events = flash{}, false, 0
	}
	d.UnitAttention = false
	d.SysfsRevision = d.Running.Version
}

func (d *scsiState) describe(out *Device) {
	out.Running, out.RunningDigest = d.Running.Version, d.Running.Digest
	out.Stored, out.StoredDigest = out.Running, out.RunningDigest
	if d.Deferred.Version != "" && !d.Deferred.Torn {
		out.Stored, out.StoredDigest = d.Deferred.Version, d.Deferred.Digest
	}
	out.Torn = d.Deferred.Torn
}
