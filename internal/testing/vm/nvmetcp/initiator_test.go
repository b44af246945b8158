package nvmetcp_test

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

var le = binary.LittleEndian

// initiator is one queue of a host.
type initiator struct {
	t          *testing.T
	conn       net.Conn
	nextID     uint16
	controller uint16
	// maxData is the most data of one PDU, and data what came for commands that did not end.
	maxData int
	data    map[uint16][]byte
	// pieces are what commands still have to send.
	pieces map[uint16][]byte
	// ended are the commands that ended while another one was awaited.
	ended map[uint16]result
}

// dial connects and greets, without a Connect command.
func dial(t *testing.T, d *testDrive) *initiator {
	t.Helper()
	conn, err := net.Dial("tcp", d.addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	h := &initiator{t: t, conn: conn, data: map[uint16][]byte{}, pieces: map[uint16][]byte{}, ended: map[uint16]result{}}
	h.write(greeting())
	answer := make([]byte, 128)
	_, err = io.ReadFull(conn, answer)
	require.NoError(t, err)
	require.Equal(t, []byte{1, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 0}, answer[:12])
	h.maxData = int(le.Uint32(answer[12:]))
	require.GreaterOrEqual(t, h.maxData, 4096)
	return h
}

func greeting() []byte {
	b := make([]byte, 128)
	b[2], b[4] = 128, 128
	return b
}

func (h *initiator) write(b []byte) {
	h.t.Helper()
	_, err := h.conn.Write(b)
	require.NoError(h.t, err)
}

// submission is a command with its data: data to the drive, or room for data from it.
type submission struct {
	opcode    uint8
	namespace uint32
	// dwords from number 10 on.
	dwords []uint32
	send   []byte
	room   int
	// noCapsule sends data after the drive asked for it only.
	noCapsule bool
	// raw changes the command last.
	raw func(c []byte)
}

type result struct {
	status nvmectrl.Status
	value  uint64
	data   []byte
}

func (h *initiator) submit(s submission) uint16 {
	h.t.Helper()
	h.nextID++
	id := h.nextID
	inside := len(s.send) > 0 && len(s.send) <= 8<<10 && !s.noCapsule
	b := make([]byte, 72)
	b[0], b[2] = 4, 72
	c := b[8:]
	c[0], c[1] = s.opcode, 0x40
	le.PutUint16(c[2:], id)
	le.PutUint32(c[4:], s.namespace)
	le.PutUint32(c[32:], uint32(max(len(s.send), s.room)))
	c[39] = 0x5a
	for i, d := range s.dwords {
		le.PutUint32(c[40+4*i:], d)
	}
	if inside {
		b[3], c[39] = 72, 0x01
	} else if len(s.send) > 0 {
		h.pieces[id] = s.send
	}
	if s.raw != nil {
		s.raw(c)
	}
	if inside {
		b = append(b, s.send...)
	}
	le.PutUint32(b[4:], uint32(len(b)))
	h.write(b)
	return id
}

// await reads until a command ended.
func (h *initiator) await(id uint16) result {
	h.t.Helper()
	for {
		if r, ok := h.ended[id]; ok {
			delete(h.ended, id)
			return r
		}
		got, r := h.receive()
		h.ended[got] = r
	}
}

// receive reads until any command ended.
func (h *initiator) receive() (uint16, result) {
	h.t.Helper()
	for {
		common := make([]byte, 8)
		_, err := io.ReadFull(h.conn, common)
		require.NoError(h.t, err)
		rest := make([]byte, le.Uint32(common[4:])-8)
		_, err = io.ReadFull(h.conn, rest)
		require.NoError(h.t, err)
		switch common[0] {
		case 5:
			id := le.Uint16(rest[12:])
			r := result{status: nvmectrl.Status(le.Uint16(rest[14:]) >> 1 & 0x7ff), value: le.Uint64(rest), data: h.data[id]}
			delete(h.data, id)
			return id, r
		case 7:
			id := le.Uint16(rest)
			require.Len(h.t, h.data[id], int(le.Uint32(rest[4:])))
			h.data[id] = append(h.data[id], rest[common[3]-8:]...)
		case 9:
			h.answer(rest)
		default:
			require.FailNow(h.t, "unexpected PDU", "%x %x", common, rest)
		}
	}
}

// answer sends the data that the drive asked for.
func (h *initiator) answer(ask []byte) {
	id, tag := le.Uint16(ask), le.Uint16(ask[2:])
	offset, length := int(le.Uint32(ask[4:])), int(le.Uint32(ask[8:]))
	data := h.pieces[id][offset : offset+length]
	for at := 0; at < len(data); at += h.maxData {
		part := data[at:min(at+h.maxData, len(data))]
		h.write(dataPDU(id, tag, offset+at, part, at+len(part) == len(data)))
	}
}

func dataPDU(id, tag uint16, offset int, data []byte, last bool) []byte {
	b := make([]byte, 24)
	b[0], b[2], b[3] = 6, 24, 24
	if last {
		b[1] = 4
	}
	le.PutUint32(b[4:], uint32(24+len(data)))
	le.PutUint16(b[8:], id)
	le.PutUint16(b[10:], tag)
	le.PutUint32(b[12:], uint32(offset))
	le.PutUint32(b[16:], uint32(len(data)))
	return append(b, data...)
}

func (h *initiator) do(s submission) result {
	h.t.Helper()
	return h.await(h.submit(s))
}

// connect sends the Connect command. What it says can be changed.
func (h *initiator) connect(nqn string, queue uint16, change func(c, data []byte)) result {
	data := make([]byte, 1024)
	data[0] = 7
	le.PutUint16(data[16:], h.controller)
	copy(data[256:], nqn)
	copy(data[512:], hostNQN)
	return h.do(submission{opcode: 0x7f, namespace: 1, dwords: []uint32{uint32(queue) << 16, 31}, send: data, raw: func(c []byte) {
		if change != nil {
			change(c, data)
		}
	}})
}

func (h *initiator) property(offset uint32) result {
	wide := uint32(0)
	if offset == 0 {
		wide = 1
	}
	return h.do(submission{opcode: 0x7f, namespace: 4, dwords: []uint32{wide, offset}})
}

func (h *initiator) setProperty(offset, value uint32) nvmectrl.Status {
	return h.do(submission{opcode: 0x7f, namespace: 0, dwords: []uint32{0, offset, value}}).status
}

// enable makes the controller ready.
func (h *initiator) enable() {
	h.t.Helper()
	require.Equal(h.t, nvmectrl.Success, h.setProperty(0x14, 0x460001))
	require.Eventually(h.t, func() bool { return h.property(0x1c).value&1 == 1 }, 10*time.Second, time.Millisecond)
}

func (h *initiator) reset() {
	h.t.Helper()
	require.Equal(h.t, nvmectrl.Success, h.setProperty(0x14, 0x460000))
	require.Zero(h.t, h.property(0x1c).value&1)
	h.enable()
}

// attach is the admin queue of a controller that is ready.
func attach(t *testing.T, d *testDrive) *initiator {
	t.Helper()
	h := dial(t, d)
	h.controller = 0xffff
	r := h.connect(d.NQN(), 0, nil)
	require.Equal(t, nvmectrl.Success, r.status)
	h.controller = uint16(r.value)
	h.enable()
	return h
}

// attachIO is an I/O queue beside an admin queue.
func attachIO(t *testing.T, d *testDrive, admin *initiator, queue uint16) *initiator {
	t.Helper()
	h := dial(t, d)
	h.controller = admin.controller
	require.Equal(t, nvmectrl.Success, h.connect(d.NQN(), queue, nil).status)
	return h
}

func (h *initiator) identify(what, namespace uint32) result {
	return h.do(submission{opcode: 0x06, namespace: namespace, dwords: []uint32{what}, room: 4096})
}

func (h *initiator) revision() string {
	h.t.Helper()
	r := h.identify(1, 0)
	require.Equal(h.t, nvmectrl.Success, r.status)
	return strings.TrimRight(string(r.data[64:72]), " ")
}

func (h *initiator) log(page uint32, length int) result {
	return h.do(submission{opcode: 0x02, namespace: 0xffffffff, dwords: []uint32{page | uint32(length/4-1)<<16}, room: length})
}

func pieceOf(offset int, data []byte) submission {
	return submission{opcode: 0x11, dwords: []uint32{uint32(len(data)/4 - 1), uint32(offset / 4)}, send: data}
}

func (h *initiator) download(image []byte, unit int) {
	h.t.Helper()
	for at := 0; at < len(image); at += unit {
		require.Equal(h.t, nvmectrl.Success, h.do(pieceOf(at, image[at:min(at+unit, len(image))])).status, "offset %d", at)
	}
}

func commitOf(slot, action uint32) submission {
	return submission{opcode: 0x10, dwords: []uint32{slot | action<<3}}
}

func (h *initiator) commit(slot, action uint32) nvmectrl.Status {
	return h.do(commitOf(slot, action)).status
}

func abortOf(id uint16) submission {
	return submission{opcode: 0x08, dwords: []uint32{uint32(id) << 16}}
}
