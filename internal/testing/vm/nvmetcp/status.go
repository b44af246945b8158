package nvmetcp

import "fmt"

// Status is how a command ended: the status code type in bits 10:8 and the status code in bits 7:0. On the wire, and in
// what the kernel hands to programs, bit 14 (do not retry) may be set beside it.
type Status uint16

// The statuses of firmware commands.
const (
	InvalidFirmwareSlot    Status = 0x106
	InvalidFirmwareImage   Status = 0x107
	NeedsConventionalReset Status = 0x10b
	NeedsSubsystemReset    Status = 0x110
	NeedsControllerReset   Status = 0x111
	ActivationTooLong      Status = 0x112
	ActivationProhibited   Status = 0x113
	OverlappingRange       Status = 0x114
)

// The other statuses.
const (
	Success              Status = 0x000
	InvalidOpcode        Status = 0x001
	InvalidField         Status = 0x002
	CommandIDConflict    Status = 0x003
	DataTransferError    Status = 0x004
	InternalError        Status = 0x006
	AbortRequested       Status = 0x007
	InvalidNamespace     Status = 0x00b
	CommandSequenceError Status = 0x00c
	DataLengthInvalid    Status = 0x00f
	DescriptorInvalid    Status = 0x011
	OutOfRange           Status = 0x080
	TooManyEventRequests Status = 0x105
	InvalidLogPage       Status = 0x109
	FeatureNotSaveable   Status = 0x10d
	ConnectFormat        Status = 0x180
	ConnectBusy          Status = 0x181
	ConnectInvalid       Status = 0x182
)

func (s Status) String() string { return fmt.Sprintf("status 0x%03x", uint16(s)) }

// doNotRetry says that the same command would end the same way again.
const doNotRetry = 0x4000

// wire is the status field of a completion. Bit 0, the phase tag of a queue in memory, is none of a fabric's.
func (s Status) wire() uint16 {
	switch s {
	case Success, InternalError, AbortRequested, DataTransferError,
		NeedsConventionalReset, NeedsSubsystemReset, NeedsControllerReset:
		return uint16(s) << 1
	}
	return (uint16(s) | doNotRetry) << 1
}
