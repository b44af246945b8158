package nvmetcp

import "github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"

// Statuses that the model of the controller does not return.
const (
	CommandIDConflict    nvmectrl.Status = 0x003
	AbortRequested       nvmectrl.Status = 0x007
	InvalidNamespace     nvmectrl.Status = 0x00b
	CommandSequenceError nvmectrl.Status = 0x00c
	DataLengthInvalid    nvmectrl.Status = 0x00f
	DescriptorInvalid    nvmectrl.Status = 0x011
	OutOfRange           nvmectrl.Status = 0x080
	TooManyEventRequests nvmectrl.Status = 0x105
	FeatureNotSaveable   nvmectrl.Status = 0x10d
	ConnectFormat        nvmectrl.Status = 0x180
	ConnectBusy          nvmectrl.Status = 0x181
	ConnectInvalid       nvmectrl.Status = 0x182
)

// doNotRetry is the bit Do Not Retry: the same command would fail again.
const doNotRetry = 0x4000

// wire is the status field of a completion. Bit 0, the phase tag of a queue in memory, is not used on a fabric.
func wire(s nvmectrl.Status) uint16 {
	if s.Committed() || s == nvmectrl.InternalError || s == AbortRequested {
		return uint16(s) << 1
	}
	return (uint16(s) | doNotRetry) << 1
}
