package nvmetcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// pduType is the first byte of a PDU.
type pduType uint8

const (
	icRequest   pduType = 0x00
	icResponse  pduType = 0x01
	hostTerm    pduType = 0x02
	driveTerm   pduType = 0x03
	capsuleCmd  pduType = 0x04
	capsuleResp pduType = 0x05
	hostData    pduType = 0x06
	driveData   pduType = 0x07
	readyToTake pduType = 0x09
)

// Lengths of PDUs. An initialization PDU is only a header.
const (
	commonLength = 8
	icLength     = 128
	termLength   = 24
	cmdLength    = commonLength + commandSize
	respLength   = 24
	dataLength   = 24

	// termExcerpt is how many bytes of an invalid PDU are sent back.
	termExcerpt = 128
	// capsuleData is how much data a command capsule can carry: the value that the specification sets for admin queues.
	capsuleData = 8 << 10
	// hostDataMax is the most data of one H2CData PDU.
	hostDataMax = 64 << 10
)

// Flags of PDUs.
const (
	flagDigests = 0x03
	flagLast    = 0x04
)

// header is the common header of all PDUs.
type header struct {
	kind         pduType
	flags        uint8
	headerLength uint8
	dataOffset   uint8
	length       uint32
}

// pdu is one unit of the transport: a header with its own fields, and data.
type pdu struct {
	header
	// fields are the header's bytes after the common ones.
	fields []byte
	data   []byte
}

// fatal is the status with which a connection is terminated.
type fatal uint16

const (
	fatalHeader   fatal = 0x01
	fatalSequence fatal = 0x02
	fatalRange    fatal = 0x04
	fatalParam    fatal = 0x06
)

// protocolError is an error of the host after which the connection must be terminated.
type protocolError struct {
	status fatal
	// info is the offset of the invalid field, if there is one.
	info uint32
	// excerpt is the invalid header.
	excerpt []byte
	what    string
}

func (e *protocolError) Error() string { return e.what }

var errTerminated = errors.New("the host ended the connection with a termination request")

// readPDU reads a PDU that a host may send. It allocates no more than the longest PDU of its kind.
func readPDU(r io.Reader) (pdu, error) {
	var common [commonLength]byte
	if _, err := io.ReadFull(r, common[:]); err != nil {
		return pdu{}, err
	}
	h := header{
		kind: pduType(common[0]), flags: common[1], headerLength: common[2], dataOffset: common[3],
		length: binary.LittleEndian.Uint32(common[4:]),
	}
	if offset, what := h.check(); what != "" {
		return pdu{}, &protocolError{
			status: fatalHeader, info: offset, excerpt: common[:],
			what: fmt.Sprintf("PDU type 0x%02x: %s", uint8(h.kind), what),
		}
	}
	rest := make([]byte, h.length-commonLength)
	if _, err := io.ReadFull(r, rest); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return pdu{}, err
	}
	at := h.headerLength - commonLength
	return pdu{header: h, fields: rest[:at], data: rest[at:]}, nil
}

// Offsets in the common header, for error reports.
const (
	atType         = 0
	atFlags        = 1
	atHeaderLength = 2
	atDataOffset   = 3
	atLength       = 4
)

// check returns an error that names what is wrong with a header, and the offset.
func (h header) check() (offset uint32, what string) {
	var length uint8
	var dataMin, dataMax uint32
	switch h.kind {
	case icRequest:
		length = icLength
	case hostTerm:
		length, dataMax = termLength, termExcerpt
	case capsuleCmd:
		length, dataMax = cmdLength, capsuleData
	case hostData:
		length, dataMin, dataMax = dataLength, 1, hostDataMax
	default:
		return atType, "not a type a host sends"
	}
	if h.flags&flagDigests != 0 {
		return atFlags, "digests were not agreed upon"
	}
	if h.headerLength != length {
		return atHeaderLength, fmt.Sprintf("header of %d bytes, not %d", h.headerLength, length)
	}
	if h.length < uint32(length)+dataMin || h.length > uint32(length)+dataMax {
		return atLength, fmt.Sprintf("%d bytes long", h.length)
	}
	carries := h.kind == capsuleCmd || h.kind == hostData
	if carries && h.length > uint32(length) && h.dataOffset != length {
		return atDataOffset, fmt.Sprintf("data at %d", h.dataOffset)
	}
	return 0, ""
}

// begin returns the bytes of a PDU with an empty header and room for data after it.
func begin(h header, data int) []byte {
	b := make([]byte, h.headerLength, max(int(h.headerLength), int(h.dataOffset))+data)
	h.length = uint32(cap(b))
	b[0], b[1], b[2], b[3] = byte(h.kind), h.flags, h.headerLength, h.dataOffset
	binary.LittleEndian.PutUint32(b[4:], h.length)
	return b
}

func makeICResponse() []byte {
	b := begin(header{kind: icResponse, headerLength: icLength}, 0)
	// Version 0, alignment 0 and no digests are zeroes.
	binary.LittleEndian.PutUint32(b[12:], hostDataMax)
	return b
}

func makeTerm(e *protocolError) []byte {
	excerpt := e.excerpt[:min(len(e.excerpt), termExcerpt)]
	b := begin(header{kind: driveTerm, headerLength: termLength}, len(excerpt))
	binary.LittleEndian.PutUint16(b[8:], uint16(e.status))
	binary.LittleEndian.PutUint32(b[10:], e.info)
	return append(b, excerpt...)
}

// makeData carries data to the host, at an offset that is a multiple of align.
func makeData(commandID uint16, data []byte, align int) []byte {
	offset := (dataLength + align - 1) / align * align
	b := begin(header{kind: driveData, flags: flagLast, headerLength: dataLength, dataOffset: uint8(offset)}, len(data))
	binary.LittleEndian.PutUint16(b[8:], commandID)
	binary.LittleEndian.PutUint32(b[16:], uint32(len(data)))
	return append(b[:offset], data...)
}

// makeReadyToTake asks for all the data of a command.
func makeReadyToTake(commandID, tag uint16, length uint32) []byte {
	b := begin(header{kind: readyToTake, headerLength: dataLength}, 0)
	binary.LittleEndian.PutUint16(b[8:], commandID)
	binary.LittleEndian.PutUint16(b[10:], tag)
	binary.LittleEndian.PutUint32(b[16:], length)
	return b
}

// entry is a completion queue entry.
type entry struct {
	result    uint64
	queueHead uint16
	queue     uint16
	commandID uint16
	status    nvmectrl.Status
}

func makeResponse(e entry) []byte {
	b := begin(header{kind: capsuleResp, headerLength: respLength}, 0)
	binary.LittleEndian.PutUint64(b[8:], e.result)
	binary.LittleEndian.PutUint16(b[16:], e.queueHead)
	binary.LittleEndian.PutUint16(b[18:], e.queue)
	binary.LittleEndian.PutUint16(b[20:], e.commandID)
	binary.LittleEndian.PutUint16(b[22:], wire(e.status))
	return b
}
