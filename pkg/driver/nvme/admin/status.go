package admin

import "fmt"

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
	0x001:                  "invalid opcode",
	0x002:                  "invalid field",
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
