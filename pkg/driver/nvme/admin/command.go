package admin

import "time"

// Command is one admin command, laid out as the kernel's struct nvme_passthru_cmd (linux/nvme_ioctl.h).
type Command struct {
	Opcode, Flags       uint8
	_                   uint16
	Namespace           uint32
	CDW2, CDW3          uint32
	Metadata, Data      uint64
	MetadataLength      uint32
	DataLength          uint32
	CDW10, CDW11, CDW12 uint32
	CDW13, CDW14, CDW15 uint32
	TimeoutMilliseconds uint32
	Result              uint32
}

// Opcodes of the admin commands that are used (NVMe Base Specification 2.0, figure 138).
const (
	OpcodeGetLogPage       = 0x02
	OpcodeIdentify         = 0x06
	OpcodeFirmwareCommit   = 0x10
	OpcodeFirmwareDownload = 0x11
)

// Action is the Commit Action of Firmware Commit (NVMe Base Specification 2.0, figure 177).
type Action uint8

// The actions that are used.
const (
	// ReplaceAtReset stores the downloaded image in the slot, to run after the next reset.
	ReplaceAtReset Action = 1
	// ActivateAtReset makes the image that the slot holds the one to run after the next reset.
	ActivateAtReset Action = 2
	// ActivateNow makes the image that the slot holds run at once, without a reset.
	ActivateNow Action = 3
)

// Controller is an open NVMe controller.
type Controller interface {
	// Do sends a command with the buffer that it reads data from or writes data to. The status is the drive's answer; an error
	// means that there is no answer.
	Do(c *Command, data []byte) (Status, error)
	// Reset resets the controller and waits until it is ready.
	Reset() error
	Close() error
}

// Opener opens the controller with a kernel's name such as "nvme0".
type Opener func(node string) (Controller, error)

// The kernel resets a controller whose command exceeds its timeout, so these are long: a caller that cannot wait abandons the
// command instead. The timeout of reads is the kernel's own default; those of writes leave time to erase flash.
const (
	readTimeout     = time.Minute
	downloadTimeout = 3 * time.Minute
	commitTimeout   = 10 * time.Minute
)

const (
	identifySize   = 4096
	slotLogSize    = 512
	slotLogPage    = 3
	allNamespaces  = 0xffffffff
	identifyThis   = 1 // CNS 01h: the controller that processes the command
	bytesPerDword  = 4
	actionPosition = 3
)

// Identify reads the Identify Controller data.
func Identify(c Controller) (Identification, error) {
	data := make([]byte, identifySize)
	err := read(c, "identify controller", Command{Opcode: OpcodeIdentify, CDW10: identifyThis}, data)
	if err != nil {
		return Identification{}, err
	}
	return ParseIdentify(data)
}

// ReadSlotLog reads the Firmware Slot Information log.
func ReadSlotLog(c Controller) (SlotLog, error) {
	data := make([]byte, slotLogSize)
	err := read(c, "read firmware slot log", Command{
		Opcode: OpcodeGetLogPage, Namespace: allNamespaces, CDW10: slotLogPage | (slotLogSize/bytesPerDword-1)<<16,
	}, data)
	if err != nil {
		return SlotLog{}, err
	}
	return ParseSlotLog(data)
}

func read(c Controller, operation string, cmd Command, data []byte) error {
	cmd.TimeoutMilliseconds = milliseconds(readTimeout)
	status, err := c.Do(&cmd, data)
	if err == nil && status != Success {
		err = &StatusError{Operation: operation, Status: status}
	}
	return err
}

// Download transfers a piece of an image to the drive's buffer. Its length and its offset are multiples of four bytes.
func Download(c Controller, piece []byte, offset int) (Status, error) {
	return c.Do(&Command{
		Opcode: OpcodeFirmwareDownload,
		CDW10:  uint32(len(piece)/bytesPerDword - 1), CDW11: uint32(offset / bytesPerDword),
		TimeoutMilliseconds: milliseconds(downloadTimeout),
	}, piece)
}

// Commit sends a Firmware Commit with the action for the slot.
func Commit(c Controller, slot int, action Action) (Status, error) {
	return c.Do(&Command{
		Opcode: OpcodeFirmwareCommit, CDW10: uint32(slot) | uint32(action)<<actionPosition,
		TimeoutMilliseconds: milliseconds(commitTimeout),
	}, nil)
}

func milliseconds(d time.Duration) uint32 { return uint32(d.Milliseconds()) }
