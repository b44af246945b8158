package nvmetcp

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// Opcodes of admin commands, of those for input and output, and the types of fabrics commands.
const (
	opGetLogPage       = 0x02
	opIdentify         = 0x06
	opSetFeatures      = 0x09
	opFirmwareCommit   = 0x10
	opFirmwareDownload = 0x11
	opKeepAlive        = 0x18
	opFabrics          = 0x7f

	opFlush = 0x00
	opWrite = 0x01
	opRead  = 0x02

	typePropertySet = 0x00
	typeConnect     = 0x01
	typePropertyGet = 0x04
)

// The statuses that package nvmectrl does not need.
const (
	commandSequenceError nvmectrl.Status = 0x00c
	dataLengthInvalid    nvmectrl.Status = 0x00f
	connectInvalid       nvmectrl.Status = 0x182
)

func (q *queue) execute(c *command) completion {
	switch {
	case c.opcode() == opFabrics && c.entry[4] == typeConnect:
		return q.connect(c)
	case q.controller == 0:
		return failed(commandSequenceError)
	case c.opcode() == opFabrics:
		return q.property(c)
	case q.drive.configuration(q.controller)&configEnable == 0:
		return failed(commandSequenceError)
	case q.id != 0:
		return blocks(c)
	}
	switch c.opcode() {
	case opIdentify:
		return q.identify(c)
	case opGetLogPage:
		return q.logPage(c)
	case opSetFeatures:
		if c.dword(10)&0xff == featureQueues {
			return completion{} // one for each direction, whose number is counted from 0
		}
	case opKeepAlive:
		return completion{}
	case opFirmwareDownload:
		if 4*(int(c.dword(10))+1) != len(c.data) {
			return failed(dataLengthInvalid)
		}
		return failed(q.drive.download(4*uint64(c.dword(11)), c.data))
	case opFirmwareCommit:
		return failed(q.drive.commit(int(c.dword(10)&7), nvmectrl.Action(c.dword(10)>>3&7)))
	}
	return failed(nvmectrl.InvalidOpcode)
}

const featureQueues = 0x07

// connect makes the connection a queue of a controller, which the admin queue creates.
func (q *queue) connect(c *command) completion {
	if len(c.data) != 1024 || q.controller != 0 {
		return failed(commandSequenceError)
	}
	name, _, _ := bytes.Cut(c.data[256:512], []byte{0})
	if string(name) != q.drive.NQN() {
		return failed(connectInvalid)
	}
	q.id, q.size = le.Uint16(c.entry[42:]), le.Uint16(c.entry[44:])+1
	if q.controller = le.Uint16(c.data[16:]); q.id == 0 {
		q.controller = q.drive.connect()
	}
	return completion{result: uint64(q.controller)}
}

// Properties, which are the registers of other transports.
const (
	propCapabilities  = 0x00
	propVersion       = 0x08
	propConfiguration = 0x14
	propStatus        = 0x1c

	version14 = 0x00010400
	// capabilities: so many entries, contiguous queues, ready within a minute, the command set NVM.
	capabilities = (queueMax - 1) | 1<<16 | 120<<24 | 1<<37

	configEnable       = 1 << 0
	configShutdown     = 3 << 14
	statusReady        = 1 << 0
	statusShutdownDone = 2 << 2
)

func (q *queue) property(c *command) completion {
	config := q.drive.configuration(q.controller)
	switch kind, at := c.entry[4], c.dword(11); {
	case kind == typePropertySet && at == propConfiguration:
		if q.drive.configure(q.controller, c.dword(12)) != nil {
			return failed(nvmectrl.InternalError)
		}
		return completion{}
	case kind != typePropertyGet:
	case at == propCapabilities:
		return completion{result: capabilities}
	case at == propVersion:
		return completion{result: version14}
	case at == propConfiguration:
		return completion{result: uint64(config)}
	case at == propStatus:
		status := uint64(0)
		if config&configEnable != 0 {
			status |= statusReady
		}
		if config&configShutdown != 0 {
			status |= statusShutdownDone
		}
		return completion{result: status}
	}
	return failed(nvmectrl.InvalidField)
}

const (
	identifyNamespace   = 0x00
	identifyController  = 0x01
	identifyActive      = 0x02
	identifyDescriptors = 0x03

	identifySize = 4096
	// The one namespace is of 16 MiB, in blocks of 512 bytes.
	namespaceID = 1
	blockShift  = 9
	blockCount  = 16 << 20 >> blockShift
)

func (q *queue) identify(c *command) completion {
	b := make([]byte, identifySize)
	id := sha256.Sum256([]byte(q.drive.config.Serial))
	guid, eui := id[:16], id[16:24]
	switch c.dword(10) & 0xff {
	case identifyController:
		q.describe(b)
	case identifyNamespace:
		for at := 0; at < 24; at += 8 { // size, capacity, use
			le.PutUint64(b[at:], blockCount)
		}
		copy(b[104:], guid)
		copy(b[120:], eui)
		b[130] = blockShift
	case identifyActive:
		if c.namespace() < namespaceID {
			le.PutUint32(b, namespaceID)
		}
	case identifyDescriptors:
		copy(b, slices.Concat([]byte{1, 8, 0, 0}, eui, []byte{2, 16, 0, 0}, guid))
	default:
		return failed(nvmectrl.InvalidField)
	}
	return completion{data: b}
}

func (q *queue) describe(b []byte) {
	q.drive.snapshot().Identify(b)
	le.PutUint16(b[78:], q.controller)
	le.PutUint32(b[80:], version14)
	b[111] = 1 // an I/O controller
	le.PutUint16(b[266:], nvmectrl.WarningTemperature)
	le.PutUint16(b[268:], nvmectrl.CriticalTemperature)
	le.PutUint16(b[320:], 10)   // steps of keep alive: 1 s
	b[512], b[513] = 0x66, 0x44 // sizes of entries
	le.PutUint16(b[514:], queueMax)
	le.PutUint32(b[516:], namespaceID)
	le.PutUint32(b[536:], 1|1<<20) // descriptors; data in capsules
	copy(b[768:1024], q.drive.NQN())
	le.PutUint32(b[1792:], (commandSize+capsuleData)/16)
	le.PutUint32(b[1796:], 1)
	b[1803] = 1 // one descriptor a command
}

func (q *queue) logPage(c *command) completion {
	page := q.drive.snapshot().Log(uint8(c.dword(10)))
	if page == nil {
		return failed(nvmectrl.InvalidLogPage)
	}
	data := make([]byte, min(c.length(), maxPDU))
	copy(data, page)
	return completion{data: data}
}

// blocks reads and writes the namespace, which is empty and stays so.
func blocks(c *command) completion {
	switch c.opcode() {
	case opFlush, opWrite:
		return completion{}
	case opRead:
		return completion{data: make([]byte, min(c.length(), maxPDU))}
	}
	return failed(nvmectrl.InvalidOpcode)
}
