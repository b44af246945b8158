package nvmectrl

import "fmt"

// Status is how a command ended: the status code type in bits 10:8 and the status code in bits 7:0.
type Status uint16

// Generic statuses (NVMe Base Specification 2.0, figure 96).
const (
	Success       Status = 0x000
	InvalidOpcode Status = 0x001
	InvalidField  Status = 0x002
	InternalError Status = 0x006

	SanitizeFailed     Status = 0x01c
	SanitizeInProgress Status = 0x01d
)

// Statuses of Firmware Commit, Firmware Image Download and Get Log Page (figures 179, 183 and 98).
const (
	InvalidFirmwareSlot    Status = 0x106
	InvalidFirmwareImage   Status = 0x107
	InvalidLogPage         Status = 0x109
	NeedsConventionalReset Status = 0x10b
	NeedsSubsystemReset    Status = 0x110
	NeedsControllerReset   Status = 0x111
	ActivationTooLong      Status = 0x112
	ActivationProhibited   Status = 0x113
	OverlappingRange       Status = 0x114
)

func (s Status) String() string { return fmt.Sprintf("status 0x%03x", uint16(s)) }

// Committed reports whether a Firmware Commit that ended like this was carried out. One that was may need a reset.
func (s Status) Committed() bool {
	switch s {
	case Success, NeedsConventionalReset, NeedsSubsystemReset, NeedsControllerReset:
		return true
	}
	return false
}
