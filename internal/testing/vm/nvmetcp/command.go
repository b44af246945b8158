package nvmetcp

import (
	"encoding/binary"
	"errors"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

const (
	commandSize = 64
	// transferMax is the most bytes of data that one command moves (MDTS).
	transferMax   = 1 << (pageShift + transferShift)
	pageShift     = 12
	transferShift = 5
)

// Opcodes.
const (
	opGetLogPage       = 0x02
	opIdentify         = 0x06
	opAbort            = 0x08
	opSetFeatures      = 0x09
	opGetFeatures      = 0x0a
	opEventRequest     = 0x0c
	opFirmwareCommit   = 0x10
	opFirmwareDownload = 0x11
	opKeepAlive        = 0x18
	opFabrics          = 0x7f

	opFlush = 0x00
	opWrite = 0x01
	opRead  = 0x02

	// Types of fabrics commands.
	typePropertySet = 0x00
	typeConnect     = 0x01
	typePropertyGet = 0x04
)

// Bits 1:0 of opcodes and of types of fabrics commands: the direction of data.
const (
	directionMask = 0x03
	toDrive       = 0x01
)

// Kinds of descriptors: where the data is.
const (
	inCapsule  = 0x01
	onTheWire  = 0x5a
	useDescr   = 0x40
	fusedMask  = 0x03
	descrMask  = 0xc0
	descrKind  = 39
	descrBytes = 32
)

// command is a submission queue entry.
type command [commandSize]byte

func parseCommand(b []byte) (command, error) {
	if len(b) != commandSize {
		return command{}, errors.New("a command is 64 bytes")
	}
	return command(b), nil
}

func (c *command) opcode() uint8          { return c[0] }
func (c *command) id() uint16             { return binary.LittleEndian.Uint16(c[2:]) }
func (c *command) fabricsType() uint8     { return c[4] }
func (c *command) namespace() uint32      { return binary.LittleEndian.Uint32(c[4:]) }
func (c *command) short(at int) uint16    { return binary.LittleEndian.Uint16(c[at:]) }
func (c *command) long(at int) uint64     { return binary.LittleEndian.Uint64(c[at:]) }
func (c *command) dword(n int) uint32     { return binary.LittleEndian.Uint32(c[4*n:]) }
func (c *command) dataLength() uint32     { return binary.LittleEndian.Uint32(c[descrBytes:]) }
func (c *command) carriesData() bool      { return c[descrKind] == inCapsule }
func (c *command) direction() uint8       { return c.directed() & directionMask }
func (c *command) isFabrics(t uint8) bool { return c.opcode() == opFabrics && c.fabricsType() == t }

func (c *command) directed() uint8 {
	if c.opcode() == opFabrics {
		return c.fabricsType()
	}
	return c.opcode()
}

// check checks the fields that all commands have, given the number of bytes that came in the capsule.
func (c *command) check(carried int) nvmectrl.Status {
	switch {
	case c[1]&fusedMask != 0 || c[1]&descrMask != useDescr:
		return nvmectrl.InvalidField
	case c.carriesData() && (c.long(24) != 0 || c.direction() != toDrive):
		return DescriptorInvalid
	case c.carriesData() && c.dataLength() != uint32(carried):
		return DataLengthInvalid
	case c.carriesData():
		return nvmectrl.Success
	case c[descrKind] != onTheWire && c.dataLength() != 0:
		return DescriptorInvalid
	case carried != 0:
		return DataLengthInvalid
	case c.dataLength() > transferMax:
		return nvmectrl.InvalidField
	}
	return nvmectrl.Success
}

// completion is the result of a command.
type completion struct {
	result uint64
	// data is sent to the host before the completion.
	data   []byte
	status nvmectrl.Status
}

func failed(s nvmectrl.Status) completion { return completion{status: s} }
