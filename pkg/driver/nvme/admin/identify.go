package admin

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Identification is the part of the Identify Controller data that is about firmware (NVMe Base Specification 2.0,
// figure 275).
type Identification struct {
	VendorID uint16
	// Serial, Model and Revision are without padding.
	Serial, Model, Revision string
	// CMIC says whether the drive may have several ports or controllers, as the drive spells it.
	CMIC uint8
	// OACS are the optional admin commands, FRMW the properties of the firmware slots, as the drive spells them.
	OACS uint16
	FRMW uint8
	// MDTS bounds the data of one command to 2^MDTS pages; 0 sets no bound.
	MDTS uint8
	// FWUG is the granularity of a download in units of 4 KiB; 0 means not reported and 255 no restriction.
	FWUG uint8
	// MTFA is the longest time for which the drive stops working to activate an image without a reset; 0 where it does not
	// report it.
	MTFA time.Duration
	// SANICAP are the ways to sanitize the drive, and FNA the properties of Format NVM, as the drive spells them.
	SANICAP uint32
	FNA     uint8
}

// MTFAUnit is the unit of MTFA in the Identify Controller data.
const MTFAUnit = 100 * time.Millisecond

// Positions in the Identify Controller data.
const (
	atVID, atSN, atMN, atFR, atEndOfFR = 0, 4, 24, 64, 72
	atCMIC, atMDTS, atOACS, atFRMW     = 76, 77, 256, 260
	atMTFA, atFWUG                     = 270, 319
	atSANICAP, atFNA                   = 328, 524
)

// ParseIdentify reads the Identify Controller data.
func ParseIdentify(b []byte) (Identification, error) {
	if len(b) < identifySize {
		return Identification{}, fmt.Errorf("parse identify controller: %d bytes instead of %d", len(b), identifySize)
	}
	revision, err := text(b[atFR:atEndOfFR])
	if err != nil {
		return Identification{}, fmt.Errorf("parse identify controller: firmware revision: %w", err)
	}
	return Identification{
		VendorID: binary.LittleEndian.Uint16(b[atVID:]),
		Serial:   lenientText(b[atSN:atMN]),
		Model:    lenientText(b[atMN:atFR]),
		Revision: revision,
		CMIC:     b[atCMIC],
		MDTS:     b[atMDTS],
		OACS:     binary.LittleEndian.Uint16(b[atOACS:]),
		FRMW:     b[atFRMW],
		FWUG:     b[atFWUG],
		MTFA:     time.Duration(binary.LittleEndian.Uint16(b[atMTFA:])) * MTFAUnit,
		SANICAP:  binary.LittleEndian.Uint32(b[atSANICAP:]),
		FNA:      b[atFNA],
	}, nil
}

// text is ASCII without its padding. Anything else is an error: revisions are compared, so they must be exact.
func text(b []byte) (string, error) {
	s := strings.Trim(string(b), "\x00 ")
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return "", fmt.Errorf("%q is not ASCII", s)
		}
	}
	return s, nil
}

// lenientText replaces what is not ASCII by blanks: some drives have such bytes in their serial numbers.
func lenientText(b []byte) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, string(b)))
}

// MaxSlots is how many firmware slots a drive can have.
const MaxSlots = 7

// SlotLog is the Firmware Slot Information log (NVMe Base Specification 2.0, figure 207).
type SlotLog struct {
	// AFI holds the running slot in bits 2:0, and the slot that runs after the next reset in bits 6:4.
	AFI uint8
	// Revisions are those of slots 1 to 7, empty where a slot holds nothing.
	Revisions [MaxSlots]string
	// Unreadable marks slots that hold something whose revision is not ASCII.
	Unreadable [MaxSlots]bool
}

const revisionSize = 8

// ParseSlotLog reads the log page.
func ParseSlotLog(b []byte) (SlotLog, error) {
	if len(b) < logSize {
		return SlotLog{}, fmt.Errorf("parse firmware slot log: %d bytes instead of %d", len(b), logSize)
	}
	log := SlotLog{AFI: b[0]}
	for i := range log.Revisions {
		at := revisionSize * (i + 1)
		revision, err := text(b[at : at+revisionSize])
		log.Revisions[i], log.Unreadable[i] = revision, err != nil
	}
	return log, nil
}

// ParsePowerOnHours reads bytes 143:128 of the SMART / Health Information log (NVMe Base Specification 2.0, figure 206).
func ParsePowerOnHours(b []byte) (int64, error) {
	if len(b) < logSize {
		return 0, fmt.Errorf("parse health log: %d bytes instead of %d", len(b), logSize)
	}
	hours, high := binary.LittleEndian.Uint64(b[128:]), binary.LittleEndian.Uint64(b[136:])
	if high != 0 || hours > inventory.MostPowerOnHours {
		return 0, fmt.Errorf("parse health log: the count of power-on hours is no such count: 0x%016x%016x", high, hours)
	}
	return int64(hours), nil
}

// Status is the drive's answer to a command: the status code type in bits 10:8 and the status code in bits 7:0, without
// the bits about retrying.
type Status uint16

// Statuses of Firmware Commit and Firmware Image Download (NVMe Base Specification 2.0, figures 179 and 183).
const (
	Success                Status = 0
	InvalidSlot            Status = 0x106
	InvalidImage           Status = 0x107
	NeedsConventionalReset Status = 0x10b
	NeedsSubsystemReset    Status = 0x110
	NeedsControllerReset   Status = 0x111
	MaximumTimeViolation   Status = 0x112
	ActivationProhibited   Status = 0x113
	OverlappingRange       Status = 0x114
)

// Statuses of any command on a drive that is being sanitized, or on which that failed (figure 96).
const (
	FailedSanitize     Status = 0x01c
	SanitizeInProgress Status = 0x01d
)

// Statuses by which a drive refuses Sanitize before it has begun (figures 96 and 97).
const (
	InvalidOpcode      Status = 0x001
	InvalidField       Status = 0x002
	WriteProtected     Status = 0x020
	SanitizeProhibited Status = 0x123
)

// Statuses by which this machine's kernel, not the drive, ends commands while it resets or reconnects a controller.
const (
	NoPath        Status = 0x370
	AbortedByHost Status = 0x371
)

// ByHost reports whether the drive did not give this answer. Whether it carried the command out is not known.
func (s Status) ByHost() bool { return s == NoPath || s == AbortedByHost }

// CleanStatus leaves out the bits More, Do Not Retry and Command Retry Delay.
func CleanStatus(raw uint64) Status { return Status(raw & 0x7ff) }

var statusTexts = map[Status]string{
	Success:                "success",
	InvalidOpcode:          "invalid opcode",
	InvalidField:           "invalid field",
	0x004:                  "data transfer error",
	0x006:                  "internal error",
	0x007:                  "aborted",
	InvalidSlot:            "invalid firmware slot",
	InvalidImage:           "invalid firmware image",
	0x109:                  "invalid log page",
	NeedsConventionalReset: "firmware activation requires a conventional reset",
	NeedsSubsystemReset:    "firmware activation requires a subsystem reset",
	NeedsControllerReset:   "firmware activation requires a controller reset",
	MaximumTimeViolation:   "firmware activation requires more than the maximum time",
	ActivationProhibited:   "firmware activation prohibited",
	OverlappingRange:       "overlapping range",
	FailedSanitize:         "sanitize failed",
	SanitizeInProgress:     "sanitize in progress",
	WriteProtected:         "namespace is write protected",
	SanitizeProhibited:     "sanitize prohibited while persistent memory is enabled",
	NoPath:                 "no path to the drive",
	AbortedByHost:          "aborted by this machine",
}

// String is the number, and what it means where that is known.
func (s Status) String() string {
	if text, ok := statusTexts[s]; ok {
		return fmt.Sprintf("%#x (%s)", uint16(s), text)
	}
	return fmt.Sprintf("%#x", uint16(s))
}

// StatusError is the error for a command that a drive refused.
type StatusError struct {
	Operation string
	Status    Status
}

// Unwrap is ErrNotReady for a command that the drive did not answer.
func (e *StatusError) Unwrap() error {
	if e.Status.ByHost() {
		return ErrNotReady
	}
	return nil
}

// Error names the command and the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: the drive answered %s", e.Operation, e.Status)
}
