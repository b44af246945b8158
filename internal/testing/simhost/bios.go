package simhost

import (
	"fmt"
	"strconv"
	"strings"
)

// biosState is the system firmware: the one that runs and a staged capsule.
type biosState struct {
	Running flash
	// Capsule is empty when nothing is staged.
	Capsule flash
	// CapsuleOn is where the partition with the capsule is mounted.
	CapsuleOn string `json:",omitempty"`
	// Lowest is the lowest version the firmware accepts.
	Lowest string
	// LastAttemptVersion and LastAttemptStatus as in the ESRT.
	LastAttemptVersion string
	LastAttemptStatus  int
	// UpdateState and UpdateError are fwupd's record of the last update.
	UpdateState  int `json:",omitempty"`
	UpdateTarget flash
	// SysfsVersion is what the DMI tables show.
	SysfsVersion string
	// Settings that are not at their defaults.
	Settings map[string]string `json:",omitempty"`
}

// States of an update in fwupd's history.
const (
	updateSuccess     = 2
	updateFailed      = 3
	updateNeedsReboot = 4
)

// Statuses of a capsule in the ESRT (UEFI specification, EFI_SYSTEM_RESOURCE_TABLE).
const (
	attemptSuccess      = 0
	attemptWrongVersion = 3
	attemptWrongFormat  = 4
)

func newBIOS(b BIOS) *biosState {
	f := flash{Version: b.Version, Digest: digest(BuildImage(BIOSImage, ImageOptions{Version: b.Version, GUID: b.GUID}))}
	return &biosState{Running: f, Lowest: b.LowestVersion, LastAttemptVersion: b.Version, SysfsVersion: b.Version}
}

// boot installs the capsule. The firmware never accepts one below its lowest version, whatever the tool's flags.
// Looks is where the partition is mounted on which the firmware looks for it; a capsule elsewhere stays there.
func (b *biosState) boot(how boot, looks string) {
	if c := b.Capsule; c.Version != "" && b.CapsuleOn == looks {
		b.LastAttemptVersion = c.Version
		switch {
		case how.refuse:
			b.LastAttemptStatus = how.status
		case c.Torn:
			b.LastAttemptStatus = attemptWrongFormat
		case compareDotted(c.Version, b.Lowest) < 0:
			b.LastAttemptStatus = attemptWrongVersion
		default:
			b.Running, b.LastAttemptStatus = c, how.status
		}
		b.Capsule, b.CapsuleOn = flash{}, ""
		b.UpdateState = updateSuccess
		if b.LastAttemptStatus != attemptSuccess {
			b.UpdateState = updateFailed
		}
	}
	b.SysfsVersion = b.Running.Version
}

func (b *biosState) describe(d *Device) {
	d.Running, d.RunningDigest = b.Running.Version, b.Running.Digest
	d.Stored, d.StoredDigest = d.Running, d.RunningDigest
	if b.Capsule.Version != "" && !b.Capsule.Torn {
		d.Stored, d.StoredDigest = b.Capsule.Version, b.Capsule.Digest
	}
	d.Torn, d.LastAttemptStatus = b.Capsule.Torn, b.LastAttemptStatus
}

// packTriplet packs a version of fwupd's format "triplet": 8 bits, 8 bits, 16 bits.
func packTriplet(version string) (uint32, error) {
	parts := strings.Split(version, ".")
	if len(parts) != 3 {
		return 0, fmt.Errorf("parse version %q: want three numbers between dots", version)
	}
	var packed uint32
	for i, bits := range []int{8, 8, 16} {
		n, err := strconv.ParseUint(parts[i], 10, bits)
		if err != nil {
			return 0, fmt.Errorf("parse version %q: %w", version, err)
		}
		packed = packed<<bits | uint32(n)
	}
	return packed, nil
}
