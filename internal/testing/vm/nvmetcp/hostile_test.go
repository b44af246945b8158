package nvmetcp_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/nvmetcp"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// requireTerminated reads until the drive ended the connection, and is the fatal error status it gave.
func (h *initiator) requireTerminated() uint16 {
	h.t.Helper()
	defer h.conn.Close()
	var status uint16
	for {
		common := make([]byte, 8)
		_, err := io.ReadFull(h.conn, common)
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return status
		}
		require.NoError(h.t, err)
		rest := make([]byte, le.Uint32(common[4:])-8)
		_, err = io.ReadFull(h.conn, rest)
		require.NoError(h.t, err)
		if common[0] == 3 {
			status = le.Uint16(rest)
		}
	}
}

func TestWrongPDUsEndTheConnection(t *testing.T) {
	const wrongHeader, wrongOrder, wrongRange = 1, 2, 4
	command := func(change func(b []byte)) []byte {
		b := make([]byte, 72)
		b[0], b[2], b[4], b[9] = 4, 72, 72, 0x40
		change(b)
		return b
	}
	d := newDrive(t, nil)
	for name, c := range map[string]struct {
		send []byte
		want uint16
	}{
		"unknown type":          {[]byte{0x55, 0, 8, 0, 8, 0, 0, 0}, wrongHeader},
		"type of a drive":       {[]byte{5, 0, 24, 0, 24, 0, 0, 0}, wrongHeader},
		"second greeting":       {greeting(), wrongOrder},
		"longest length":        {command(func(b []byte) { le.PutUint32(b[4:], 0xffffffff) }), wrongHeader},
		"length of nothing":     {command(func(b []byte) { le.PutUint32(b[4:], 0) }), wrongHeader},
		"more than a capsule":   {command(func(b []byte) { le.PutUint32(b[4:], 72+8<<10+1) }), wrongHeader},
		"short header":          {command(func(b []byte) { b[2] = 8 }), wrongHeader},
		"digest":                {command(func(b []byte) { b[1] = 1 }), wrongHeader},
		"data in the header":    {append(command(func(b []byte) { b[3], b[4] = 8, 76 }), 1, 2, 3, 4), wrongHeader},
		"data nobody asked for": {dataPDU(3, 3, 0, make([]byte, 8), true), wrongHeader},
		"data without data":     {dataPDU(3, 3, 0, nil, true), wrongHeader},
		"termination":           {[]byte{2, 0, 24, 0, 24, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0},
	} {
		h := attach(t, d)
		h.write(c.send)
		assert.Equal(t, c.want, h.requireTerminated(), name)
	}
	for name, c := range map[string]struct {
		change func(ask []byte) (id, tag uint16, offset, length int, last bool)
		want   uint16
	}{
		"data of another command": {func(ask []byte) (uint16, uint16, int, int, bool) { return 999, le.Uint16(ask[2:]), 0, 100, false }, wrongHeader},
		"data from the middle": {func(ask []byte) (uint16, uint16, int, int, bool) {
			return le.Uint16(ask), le.Uint16(ask[2:]), 4, 100, false
		}, wrongRange},
		"too much data": {func(ask []byte) (uint16, uint16, int, int, bool) {
			return le.Uint16(ask), le.Uint16(ask[2:]), 0, 16384, true
		}, wrongRange},
		"an early end": {func(ask []byte) (uint16, uint16, int, int, bool) {
			return le.Uint16(ask), le.Uint16(ask[2:]), 0, 100, true
		}, wrongHeader},
		"no end": {func(ask []byte) (uint16, uint16, int, int, bool) {
			return le.Uint16(ask), le.Uint16(ask[2:]), 0, 12288, false
		}, wrongHeader},
	} {
		h := attach(t, d)
		h.submit(submission{opcode: 0x11, dwords: []uint32{12288/4 - 1, 0}, send: make([]byte, 12288)})
		ask := make([]byte, 24)
		_, err := io.ReadFull(h.conn, ask)
		require.NoError(t, err)
		require.Equal(t, byte(9), ask[0])
		id, tag, offset, length, last := c.change(ask[8:])
		h.write(dataPDU(id, tag, offset, make([]byte, length), last))
		assert.Equal(t, c.want, h.requireTerminated(), name)
	}
	assert.Equal(t, "1.0", attach(t, d).revision(), "the drive lives on")
}

func TestMoreCommandsThanTheQueueHoldsEndTheConnection(t *testing.T) {
	d := newDrive(t, nil)
	h := dial(t, d)
	h.controller = 0xffff
	r := h.connect(d.NQN(), 0, func(c, _ []byte) { le.PutUint16(c[44:], 2) })
	require.Equal(t, nvmectrl.Success, r.status)
	h.enable()
	for range 4 {
		h.submit(submission{opcode: 0x0c})
	}
	assert.Equal(t, uint16(2), h.requireTerminated())
}

func TestWrongGreetingsEndTheConnection(t *testing.T) {
	d := newDrive(t, nil)
	for name, change := range map[string]func(b []byte){
		"version":   func(b []byte) { b[8] = 1 },
		"alignment": func(b []byte) { b[10] = 32 },
		"length":    func(b []byte) { b[4] = 127 },
		"a command": func(b []byte) { b[0], b[2], b[4] = 4, 72, 72 },
	} {
		conn, err := net.Dial("tcp", d.addr)
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		b := greeting()
		change(b)
		_, err = conn.Write(b)
		require.NoError(t, err)
		h := &initiator{t: t, conn: conn}
		assert.NotZero(t, h.requireTerminated(), name)
		conn.Close()
	}
}

func TestDigestsAreDeclinedAndAlignmentIsHeeded(t *testing.T) {
	d := newDrive(t, nil)
	conn, err := net.Dial("tcp", d.addr)
	require.NoError(t, err)
	defer conn.Close()
	b := greeting()
	b[10], b[11] = 15, 3
	_, err = conn.Write(b)
	require.NoError(t, err)
	h := &initiator{
		t: t, conn: conn, controller: 0xffff, data: map[uint16][]byte{}, pieces: map[uint16][]byte{}, ended: map[uint16]result{},
	}
	answer := make([]byte, 128)
	_, err = io.ReadFull(conn, answer)
	require.NoError(t, err)
	assert.Zero(t, answer[11])
	require.Equal(t, nvmectrl.Success, h.connect(d.NQN(), 0, nil).status)
	h.enable()
	h.submit(submission{opcode: 0x06, dwords: []uint32{1}, room: 4096})
	common := make([]byte, 8)
	_, err = io.ReadFull(conn, common)
	require.NoError(t, err)
	assert.Equal(t, []byte{7, 4, 24, 64}, common[:4])
	assert.Equal(t, uint32(64+4096), le.Uint32(common[4:]))
}

func TestCommandsWithWrongDescriptorsAreRefused(t *testing.T) {
	h := attach(t, newDrive(t, nil))
	for name, c := range map[string]struct {
		raw  func(c []byte)
		want nvmectrl.Status
	}{
		"fused":                {func(c []byte) { c[1] |= 1 }, nvmectrl.InvalidField},
		"memory pages":         {func(c []byte) { c[1] = 0 }, nvmectrl.InvalidField},
		"keyed":                {func(c []byte) { c[39] = 0x40 }, nvmetcp.DescriptorInvalid},
		"result in a capsule":  {func(c []byte) { c[39] = 1 }, nvmetcp.DescriptorInvalid},
		"less room":            {func(c []byte) { le.PutUint32(c[32:], 512) }, nvmetcp.DataLengthInvalid},
		"more room than there": {func(c []byte) { le.PutUint32(c[32:], 0xffffffff) }, nvmectrl.InvalidField},
		"unknown command":      {func(c []byte) { c[0] = 0xc2 }, nvmectrl.InvalidOpcode},
		"no log that long":     {func(c []byte) { c[0] = 2; le.PutUint32(c[40:], 0xffff0003); le.PutUint32(c[44:], 0xffff) }, nvmetcp.DataLengthInvalid},
	} {
		assert.Equal(t, c.want, h.do(submission{opcode: 0x06, dwords: []uint32{1}, room: 4096, raw: c.raw}).status, name)
	}
	assert.Equal(t, nvmetcp.DescriptorInvalid, h.do(submission{
		opcode: 0x11, dwords: []uint32{1023, 0}, send: make([]byte, 4096), raw: func(c []byte) { c[24] = 8 },
	}).status, "data at an offset in the capsule")
	assert.Equal(t, nvmetcp.DataLengthInvalid, h.do(submission{
		opcode: 0x11, dwords: []uint32{1023, 0}, send: make([]byte, 4096), raw: func(c []byte) { le.PutUint32(c[32:], 8192) },
	}).status, "less data than said")
}

func TestACommandIDInUseIsRefused(t *testing.T) {
	h := attach(t, newDrive(t, nil))
	held := h.submit(submission{opcode: 0x0c})
	h.nextID--
	assert.Equal(t, nvmetcp.CommandIDConflict, h.do(submission{opcode: 0x18}).status)
	assert.Equal(t, held, h.nextID)
}
