package nvmetcp_test

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/nvmetcp"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

var le = binary.LittleEndian

// initiator is one queue of a host, which sends one command after the other.
type initiator struct {
	t          *testing.T
	conn       net.Conn
	nextID     uint16
	controller uint16
}

// submission is a command with its data: data to the drive, or room for data from it.
type submission struct {
	opcode    uint8
	namespace uint32
	// dwords from number 10 on.
	dwords []uint32
	send   []byte
	room   int
}

type result struct {
	status nvmectrl.Status
	value  uint64
	data   []byte
}

func (h *initiator) write(b []byte) {
	h.t.Helper()
	_, err := h.conn.Write(b)
	require.NoError(h.t, err)
}

// do sends a command, with its data in the capsule where that fits, and waits for its end.
func (h *initiator) do(s submission) result {
	h.t.Helper()
	h.nextID++
	b := make([]byte, 72)
	b[0], b[2] = 4, 72
	c := b[8:]
	c[0], c[1], c[39] = s.opcode, 0x40, 0x5a
	le.PutUint16(c[2:], h.nextID)
	le.PutUint32(c[4:], s.namespace)
	le.PutUint32(c[32:], uint32(max(len(s.send), s.room)))
	for i, d := range s.dwords {
		le.PutUint32(c[40+4*i:], d)
	}
	if len(s.send) > 0 && len(s.send) <= 8<<10 {
		b[3], c[39] = 72, 0x01
		b = append(b, s.send...)
	}
	le.PutUint32(b[4:], uint32(len(b)))
	h.write(b)
	var r result
	for {
		kind, pdu := h.read()
		switch kind {
		case 5:
			require.Equal(h.t, h.nextID, le.Uint16(pdu[20:]))
			r.status, r.value = nvmectrl.Status(le.Uint16(pdu[22:])>>1&0x7ff), le.Uint64(pdu[8:])
			return r
		case 7:
			r.data = append(r.data, pdu[pdu[3]:]...)
		case 9:
			h.sendData(pdu, s.send)
		default:
			require.FailNow(h.t, "unexpected PDU", "%x", pdu)
		}
	}
}

func (h *initiator) read() (kind byte, pdu []byte) {
	h.t.Helper()
	pdu = make([]byte, 8)
	_, err := io.ReadFull(h.conn, pdu)
	require.NoError(h.t, err)
	pdu = append(pdu, make([]byte, le.Uint32(pdu[4:])-8)...)
	_, err = io.ReadFull(h.conn, pdu[8:])
	require.NoError(h.t, err)
	return pdu[0], pdu
}

// sendData sends what the drive asked for, in pieces as the kernel does.
func (h *initiator) sendData(ask, data []byte) {
	const most = 64 << 10
	require.Equal(h.t, len(data), int(le.Uint32(ask[16:])))
	for at := 0; at < len(data); at += most {
		part := data[at:min(at+most, len(data))]
		b := make([]byte, 24)
		b[0], b[2], b[3] = 6, 24, 24
		if at+len(part) == len(data) {
			b[1] = 4
		}
		le.PutUint32(b[4:], uint32(24+len(part)))
		copy(b[8:12], ask[8:12])
		le.PutUint32(b[12:], uint32(at))
		le.PutUint32(b[16:], uint32(len(part)))
		h.write(append(b, part...))
	}
}

// dial connects a queue of a controller, or the admin queue of a new one.
func dial(t *testing.T, address, nqn string, controller, queue uint16) (*initiator, nvmectrl.Status) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	h := &initiator{t: t, conn: conn}
	greeting := make([]byte, 128)
	greeting[2], greeting[4] = 128, 128
	h.write(greeting)
	kind, answer := h.read()
	require.Equal(t, byte(1), kind)
	require.Len(t, answer, 128)
	data := make([]byte, 1024)
	le.PutUint16(data[16:], controller)
	copy(data[256:], nqn)
	copy(data[512:], "nqn.2014-08.org.nvmexpress:uuid:5ad1a7a2-5a5d-4f5d-9b8f-0d8b5a4c0001")
	r := h.do(submission{opcode: 0x7f, namespace: 1, dwords: []uint32{uint32(queue) << 16, 31}, send: data})
	h.controller = uint16(r.value)
	return h, r.status
}

// attach is the admin queue of a controller that is ready.
func attach(t *testing.T, address string, d *nvmetcp.Drive) *initiator {
	t.Helper()
	h, status := dial(t, address, d.NQN(), 0xffff, 0)
	require.Equal(t, nvmectrl.Success, status)
	h.enable()
	return h
}

func (h *initiator) property(offset uint32) uint64 {
	return h.do(submission{opcode: 0x7f, namespace: 4, dwords: []uint32{0, offset}}).value
}

func (h *initiator) configure(value uint32) {
	h.t.Helper()
	require.Equal(h.t, nvmectrl.Success, h.do(submission{opcode: 0x7f, dwords: []uint32{0, 0x14, value}}).status)
}

func (h *initiator) enable() {
	h.t.Helper()
	h.configure(0x460001)
	require.Equal(h.t, uint64(1), h.property(0x1c))
}

func (h *initiator) reset() {
	h.t.Helper()
	h.configure(0x460000)
	require.Zero(h.t, h.property(0x1c))
	h.enable()
}

func (h *initiator) identify(what, namespace uint32) []byte {
	h.t.Helper()
	r := h.do(submission{opcode: 0x06, namespace: namespace, dwords: []uint32{what}, room: 4096})
	require.Equal(h.t, nvmectrl.Success, r.status)
	require.Len(h.t, r.data, 4096)
	return r.data
}

func (h *initiator) revision() string {
	h.t.Helper()
	return strings.TrimRight(string(h.identify(1, 0)[64:72]), " ")
}

func (h *initiator) log(page uint32) []byte {
	return h.do(submission{opcode: 0x02, namespace: 0xffffffff, dwords: []uint32{page | (512/4-1)<<16}, room: 512}).data
}

func (h *initiator) download(image []byte, unit int) {
	h.t.Helper()
	for at := 0; at < len(image); at += unit {
		piece := image[at:min(at+unit, len(image))]
		r := h.do(submission{opcode: 0x11, dwords: []uint32{uint32(len(piece)/4 - 1), uint32(at / 4)}, send: piece})
		require.Equal(h.t, nvmectrl.Success, r.status, "offset %d", at)
	}
}

func (h *initiator) commit(slot, action uint32) nvmectrl.Status {
	return h.do(submission{opcode: 0x10, dwords: []uint32{slot | action<<3}}).status
}
