package nvmetcp_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/nvmetcp"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

func TestControllerSaysWhatItIs(t *testing.T) {
	h := attach(t, newDrive(t, nil))
	b := h.identify(1, 0).data
	require.Len(t, b, 4096)
	assert.Equal(t, "S1                  lab drive                               1.0     ", string(b[4:72]))
	assert.Equal(t, h.controller, le.Uint16(b[78:]))
	assert.Equal(t, h.property(8).value, uint64(le.Uint32(b[80:])), "version")
	assert.Equal(t, byte(1), b[111], "controller type")
	assert.Equal(t, uint16(4), le.Uint16(b[256:]), "firmware commands and no others")
	assert.Equal(t, byte(3<<1), b[260], "firmware slots")
	assert.Equal(t, byte(1), b[319], "firmware granularity")
	assert.NotZero(t, le.Uint16(b[320:]), "keep alive")
	assert.Equal(t, uint16(128), le.Uint16(b[514:]), "commands")
	assert.Equal(t, uint32(1), le.Uint32(b[516:]), "namespaces")
	assert.Equal(t, uint32(1|1<<20), le.Uint32(b[536:]), "descriptors")
	assert.Equal(t, "nqn.2014-08.org.nvmexpress:lab:S1\x00", string(b[768:802]))
	assert.Equal(t, uint32((64+8192)/16), le.Uint32(b[1792:]), "capsule of commands")
	assert.Equal(t, uint32(1), le.Uint32(b[1796:]), "capsule of completions")
	assert.Zero(t, le.Uint16(b[1800:]), "offset of data in capsules")
	assert.Equal(t, uint64(127|1<<16|120<<24|1<<36|1<<37), h.property(0).value, "capabilities")
}

func TestNamespaceSaysWhatItIs(t *testing.T) {
	h := attach(t, newDrive(t, nil))
	b := h.identify(0, 1).data
	assert.Equal(t, uint64(16<<20/512), le.Uint64(b))
	assert.Equal(t, byte(9), b[130])
	list := h.identify(2, 0).data
	assert.Equal(t, append([]byte{1}, make([]byte, 4095)...), list)
	assert.Equal(t, make([]byte, 4096), h.identify(2, 1).data)
	ids := h.identify(3, 1).data
	assert.Equal(t, []byte{1, 8, 0, 0}, ids[:4])
	assert.Equal(t, b[120:128], ids[4:12])
	assert.Equal(t, []byte{2, 16, 0, 0}, ids[12:16])
	assert.Equal(t, b[104:120], ids[16:32])
	assert.Equal(t, make([]byte, 4096-32), ids[32:])
	for _, c := range [][2]uint32{{0, 0}, {0, 2}, {3, 2}, {2, 0xfffffffe}} {
		assert.Equal(t, nvmetcp.InvalidNamespace, h.identify(c[0], c[1]).status, "%v", c)
	}
	assert.Equal(t, nvmectrl.InvalidField, h.identify(6, 0).status)
}

func TestConnectsThatAreRefused(t *testing.T) {
	d := newDrive(t, nil)
	admin := attach(t, d)
	const inData = 1 << 16
	for name, c := range map[string]struct {
		queue  uint16
		change func(c, data []byte)
		want   nvmectrl.Status
		value  uint64
	}{
		"other subsystem":       {0, func(_, data []byte) { data[256] = 'x' }, nvmetcp.ConnectInvalid, 256 | inData},
		"discovery":             {0, func(_, data []byte) { copy(data[256:], "nqn.2014-08.org.nvmexpress.discovery\x00") }, nvmetcp.ConnectInvalid, 256 | inData},
		"no host":               {0, func(_, data []byte) { data[512] = 0 }, nvmetcp.ConnectInvalid, 512 | inData},
		"format":                {0, func(c, _ []byte) { c[40] = 1 }, nvmetcp.ConnectFormat, 0},
		"no queue size":         {0, func(c, _ []byte) { c[44] = 0 }, nvmetcp.ConnectInvalid, 44},
		"too large a queue":     {0, func(c, _ []byte) { c[45] = 1 }, nvmetcp.ConnectInvalid, 44},
		"admin of a controller": {0, func(_, data []byte) { le.PutUint16(data[16:], 1) }, nvmetcp.ConnectInvalid, 16 | inData},
		"too many queues":       {9, nil, nvmetcp.ConnectInvalid, 42},
		"no such controller":    {1, func(_, data []byte) { le.PutUint16(data[16:], 77) }, nvmetcp.ConnectInvalid, 16 | inData},
		"another host":          {1, func(_, data []byte) { data[0] ^= 1 }, nvmetcp.ConnectInvalid, 16 | inData},
	} {
		h := dial(t, d)
		h.controller = admin.controller
		if c.queue == 0 {
			h.controller = 0xffff
		}
		r := h.connect(d.NQN(), c.queue, c.change)
		assert.Equal(t, c.want, r.status, name)
		assert.Equal(t, c.value, r.value, name)
		assert.Equal(t, nvmetcp.CommandSequenceError, h.identify(1, 0).status, name)
		require.NoError(t, h.conn.Close())
	}
	attachIO(t, d, admin, 1)
	again := dial(t, d)
	again.controller = admin.controller
	assert.Equal(t, nvmetcp.ConnectBusy, again.connect(d.NQN(), 1, nil).status)
	assert.Equal(t, nvmetcp.CommandSequenceError, admin.connect(d.NQN(), 0, nil).status, "a queue connects once")
}

func TestAControllerThatIsNotEnabledExecutesNothing(t *testing.T) {
	d := newDrive(t, nil)
	h := dial(t, d)
	h.controller = 0xffff
	r := h.connect(d.NQN(), 0, nil)
	require.Equal(t, nvmectrl.Success, r.status)
	assert.Equal(t, nvmetcp.CommandSequenceError, h.identify(1, 0).status)
	second := dial(t, d)
	second.controller = uint16(r.value)
	assert.Equal(t, nvmetcp.CommandSequenceError, second.connect(d.NQN(), 1, nil).status)
	require.Equal(t, nvmectrl.Success, h.setProperty(0x14, 0x000001))
	assert.Equal(t, uint64(2), h.property(0x1c).value, "entries of no size")
	require.Equal(t, nvmectrl.Success, h.setProperty(0x14, 0))
	h.enable()
	require.Equal(t, nvmectrl.Success, h.setProperty(0x14, 0x464001))
	assert.Equal(t, uint64(1|2<<2), h.property(0x1c).value, "shut down")
	assert.Equal(t, nvmectrl.InvalidField, h.setProperty(0x24, 1))
	assert.Equal(t, nvmectrl.InvalidField, h.property(0x24).status)
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	for name, file := range map[string]string{"memory": "", "file": filepath.Join(t.TempDir(), "disk")} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, func(c *nvmetcp.Config) { c.NamespaceFile = file })
			h := attachIO(t, d, attach(t, d), 1)
			for at, size := range map[uint32]int{0: 512, 100: 8 << 10, 1000: 128 << 10, 16<<20/512 - 1: 512} {
				data := bytes.Repeat([]byte{byte(at), 7}, size/2)
				dwords := []uint32{at, 0, uint32(size/512 - 1)}
				require.Equal(t, nvmectrl.Success, h.do(submission{opcode: 1, namespace: 1, dwords: dwords, send: data, noCapsule: size == 8<<10}).status)
				r := h.do(submission{opcode: 2, namespace: 1, dwords: dwords, room: size})
				require.Equal(t, nvmectrl.Success, r.status)
				assert.True(t, bytes.Equal(data, r.data))
			}
			assert.Equal(t, nvmectrl.Success, h.do(submission{opcode: 0, namespace: 1}).status)
			for name, c := range map[string]struct {
				submission
				want nvmectrl.Status
			}{
				"end":       {submission{opcode: 2, namespace: 1, dwords: []uint32{16<<20/512 - 1, 0, 1}, room: 1024}, nvmetcp.OutOfRange},
				"overflow":  {submission{opcode: 2, namespace: 1, dwords: []uint32{0xffffffff, 0xffffffff, 1}, room: 1024}, nvmetcp.OutOfRange},
				"length":    {submission{opcode: 2, namespace: 1, dwords: []uint32{0, 0, 1}, room: 512}, nvmetcp.DataLengthInvalid},
				"namespace": {submission{opcode: 2, namespace: 2, dwords: []uint32{0, 0, 0}, room: 512}, nvmetcp.InvalidNamespace},
				"command":   {submission{opcode: 9, namespace: 1}, nvmectrl.InvalidOpcode},
			} {
				assert.Equal(t, c.want, h.do(c.submission).status, name)
			}
		})
	}
}

func TestIOQueuesEndWithTheAdminQueue(t *testing.T) {
	d := newDrive(t, nil)
	admin := attach(t, d)
	h := attachIO(t, d, admin, 1)
	require.NoError(t, admin.conn.Close())
	h.requireTerminated()
}

func TestFeatures(t *testing.T) {
	h := attach(t, newDrive(t, nil))
	set := func(feature, value uint32) result {
		return h.do(submission{opcode: 0x09, dwords: []uint32{feature, value}})
	}
	get := func(feature uint32) result { return h.do(submission{opcode: 0x0a, dwords: []uint32{feature}}) }
	assert.Equal(t, result{value: 7 | 7<<16}, set(7, 100|100<<16))
	assert.Equal(t, result{value: 7 | 7<<16}, get(7))
	assert.Equal(t, nvmectrl.InvalidField, set(7, 0xffff).status)
	assert.Equal(t, result{}, set(0x0f, 60_000))
	assert.Equal(t, result{value: 60_000}, get(0x0f))
	assert.Equal(t, result{}, set(0x0b, 0x1ff))
	assert.Equal(t, result{value: 0x1ff}, get(0x0b))
	assert.Equal(t, result{value: 350}, get(4))
	assert.Equal(t, result{value: 1}, get(6))
	assert.Equal(t, nvmetcp.FeatureNotSaveable, set(0x8000000b, 0).status)
	assert.Equal(t, nvmectrl.InvalidField, set(0x7f, 0).status)
	assert.Equal(t, nvmectrl.InvalidField, get(0x7f).status)
	assert.Equal(t, nvmetcp.CommandSequenceError, set(0x81, 0).status)
	id := h.do(submission{opcode: 0x0a, dwords: []uint32{0x81, 1}, room: 16})
	assert.Equal(t, append([]byte{7}, make([]byte, 15)...), id.data)
	h.reset()
	assert.Equal(t, result{}, get(0x0b), "a reset forgets")
}

func TestLogs(t *testing.T) {
	h := attach(t, newDrive(t, nil))
	assert.Equal(t, make([]byte, 64), h.log(1, 64).data)
	health := h.log(2, 512).data
	assert.Equal(t, uint16(310), le.Uint16(health[1:]))
	assert.Equal(t, byte(1), health[112], "power cycles")
	effects := h.log(5, 4096).data
	assert.Equal(t, byte(1), effects[4*0x11])
	assert.Zero(t, effects[4*0x80], "no format")
	assert.Equal(t, byte(1), effects[1024+4*2])
	assert.Equal(t, nvmectrl.InvalidLogPage, h.log(0xc0, 512).status)
	part := h.do(submission{opcode: 0x02, dwords: []uint32{3 | 3<<16, 0, 8}, room: 16})
	assert.Equal(t, append([]byte("1.0     "), make([]byte, 8)...), part.data)
	assert.Equal(t, nvmectrl.InvalidField, h.do(submission{opcode: 0x02, dwords: []uint32{3 | 3<<16, 0, 516}, room: 16}).status)
}

func TestMoreEventRequestsThanTheMostAreRefused(t *testing.T) {
	h := attach(t, newDrive(t, nil))
	last := uint16(0)
	for range 5 {
		last = h.submit(submission{opcode: 0x0c})
	}
	got, r := h.receive()
	assert.Equal(t, nvmetcp.TooManyEventRequests, r.status)
	assert.LessOrEqual(t, got, last)
	assert.Equal(t, nvmectrl.Success, h.do(submission{opcode: 0x18}).status, "keep alive")
	assert.Equal(t, nvmectrl.InvalidOpcode, h.do(submission{opcode: 0x80}).status, "format")
}
