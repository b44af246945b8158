package nvmetcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

var le = binary.LittleEndian

// The types of PDUs that are used.
const (
	icRequest   = 0x00
	icResponse  = 0x01
	capsuleCmd  = 0x04
	capsuleResp = 0x05
	hostData    = 0x06
	driveData   = 0x07
	readyToTake = 0x09
)

const (
	commonLength = 8
	icLength     = 128
	dataLength   = 24
	commandSize  = 64
	// capsuleData is the most data in a capsule of a command, and hostDataMax that in a PDU of data.
	capsuleData = 8 << 10
	hostDataMax = 64 << 10
	maxPDU      = 1 << 20
	flagLast    = 0x04
	// queueMax is the most commands in a queue.
	queueMax = 128
	// transferShift says how much data a command moves at the most: that many pages to the power of two, 128 KiB.
	transferShift = 5
)

// queue is a connection of a host: the admin queue of a controller, or one for input and output.
type queue struct {
	drive      *Drive
	conn       net.Conn
	id         uint16
	controller uint16
	// size is how many commands it holds, and head how many were taken, modulo that.
	size, head uint16
	// transfers are the commands whose data was asked for.
	transfers map[uint16]*command
}

// command is a submission queue entry, with its data.
type command struct {
	entry []byte
	data  []byte
	// got is how much of the data has come.
	got int
}

func (c *command) opcode() uint8      { return c.entry[0] }
func (c *command) id() uint16         { return le.Uint16(c.entry[2:]) }
func (c *command) namespace() uint32  { return le.Uint32(c.entry[4:]) }
func (c *command) dword(n int) uint32 { return le.Uint32(c.entry[4*n:]) }

// length is how much data the command moves, and takes says that it is data for the drive.
func (c *command) length() int { return int(le.Uint32(c.entry[32:])) }

func (c *command) takes() bool {
	directed := c.opcode()
	if directed == opFabrics {
		directed = c.entry[4]
	}
	return directed&3 == 1
}

// completion is how a command ends.
type completion struct {
	result uint64
	data   []byte
	status nvmectrl.Status
}

func failed(s nvmectrl.Status) completion { return completion{status: s} }

// serve answers the host until it closes the connection.
func (q *queue) serve() (err error) {
	defer func() {
		if q.id == 0 && q.controller != 0 {
			err = errors.Join(err, q.drive.disconnect(q.controller))
		}
	}()
	for {
		var common [commonLength]byte
		if _, err := io.ReadFull(q.conn, common[:]); err != nil {
			return err
		}
		length := le.Uint32(common[4:])
		if length < commonLength || length > maxPDU {
			return fmt.Errorf("a PDU of %d bytes", length)
		}
		pdu := append(common[:], make([]byte, length-commonLength)...)
		if _, err := io.ReadFull(q.conn, pdu[commonLength:]); err != nil {
			return err
		}
		if err := q.take(pdu); err != nil {
			return err
		}
	}
}

func (q *queue) take(pdu []byte) error {
	switch pdu[0] {
	case icRequest:
		answer := makePDU(icResponse, icLength, 0)
		le.PutUint32(answer[12:], hostDataMax)
		_, err := q.conn.Write(answer)
		return err
	case capsuleCmd:
		c := &command{entry: pdu[commonLength : commonLength+commandSize], data: pdu[commonLength+commandSize:]}
		if !c.takes() || c.length() == len(c.data) {
			return q.answer(c)
		}
		c.data = make([]byte, min(c.length(), maxPDU))
		q.transfers[c.id()] = c
		ask := makePDU(readyToTake, dataLength, 0)
		le.PutUint16(ask[8:], c.id())
		le.PutUint16(ask[10:], c.id())
		le.PutUint32(ask[16:], uint32(len(c.data)))
		_, err := q.conn.Write(ask)
		return err
	case hostData:
		c := q.transfers[le.Uint16(pdu[10:])]
		if c == nil {
			return errors.New("data that was not asked for")
		}
		c.got += copy(c.data[c.got:], pdu[pdu[3]:])
		if c.got < len(c.data) {
			return nil
		}
		delete(q.transfers, c.id())
		return q.answer(c)
	}
	return fmt.Errorf("PDU type %#x", pdu[0])
}

// answer executes a command and sends its end.
func (q *queue) answer(c *command) error {
	done := q.execute(c)
	var out bytes.Buffer
	if done.status == nvmectrl.Success && len(done.data) > 0 {
		b := makePDU(driveData, dataLength, len(done.data))
		b[1] = flagLast
		le.PutUint16(b[8:], c.id())
		le.PutUint32(b[16:], uint32(len(done.data)))
		out.Write(append(b, done.data...))
	}
	if q.size > 0 {
		q.head = (q.head + 1) % q.size
	}
	b := makePDU(capsuleResp, dataLength, 0)
	le.PutUint64(b[8:], done.result)
	le.PutUint16(b[16:], q.head)
	le.PutUint16(b[18:], q.id)
	le.PutUint16(b[20:], c.id())
	le.PutUint16(b[22:], wire(done.status))
	out.Write(b)
	_, err := q.conn.Write(out.Bytes())
	return err
}

// doNotRetry tells the host that the same command fails again.
const doNotRetry = 0x4000

func wire(s nvmectrl.Status) uint16 {
	if s.Committed() || s == nvmectrl.InternalError {
		return uint16(s) << 1
	}
	return (uint16(s) | doNotRetry) << 1
}

// makePDU begins a PDU, which so much data follows.
func makePDU(kind, header uint8, data int) []byte {
	b := make([]byte, header)
	b[0], b[2] = kind, header
	if data > 0 {
		b[3] = header
	}
	le.PutUint32(b[4:], uint32(int(header)+data))
	return b
}
