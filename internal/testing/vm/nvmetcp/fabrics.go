package nvmetcp

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

const (
	connectData = 1024
	nqnSize     = 256
	// anyController asks for a new controller.
	anyController = 0xffff
	// controllersMax is how many controllers there are at once.
	controllersMax = 16
	// ioQueues is how many I/O queues a controller has.
	ioQueues = 8
	// inData marks the offset of a wrong parameter as one in the data of Connect.
	inData = 1 << 16
)

// connect is the Connect command, the first of every queue.
func (q *queue) connect(t *task) completion {
	if len(t.data) != connectData {
		return failed(DataLengthInvalid)
	}
	format, id, size := t.short(40), t.short(42), t.short(44)
	controllerID := binary.LittleEndian.Uint16(t.data[16:])
	switch {
	case format != 0:
		return failed(ConnectFormat)
	case size == 0 || size >= queueMax:
		return wrongParameter(44)
	case id > ioQueues:
		return wrongParameter(42)
	case text(t.data[256:512]) != q.drive.config.NQN:
		return wrongParameter(256 | inData)
	case text(t.data[512:768]) == "":
		return wrongParameter(512 | inData)
	case id == 0 && controllerID != anyController:
		return wrongParameter(16 | inData)
	}
	host := host{nqn: text(t.data[512:768]), id: [16]byte(t.data)}
	var c *controller
	if id == 0 {
		if c = q.drive.newController(host, time.Duration(t.dword(12))*time.Millisecond); c == nil {
			return failed(ConnectBusy)
		}
	} else if c = q.drive.controller(controllerID); c == nil || c.host != host {
		return wrongParameter(16 | inData)
	} else if !c.ready() {
		return failed(CommandSequenceError)
	}
	if !c.join(id, q) {
		return failed(ConnectBusy)
	}
	if err := q.conn.SetReadDeadline(time.Time{}); err != nil {
		return failed(nvmectrl.InternalError)
	}
	q.mu.Lock()
	q.controller, q.id, q.size = c, id, int(size)+1
	q.mu.Unlock()
	q.drive.config.Log.Info("Connected", "host", host.nqn, "controller", c.id, "queue", id)
	return completion{result: uint64(c.id)}
}

func wrongParameter(offset uint64) completion {
	return completion{result: offset, status: ConnectInvalid}
}

// text is a string that ends with a zero byte.
func text(b []byte) string {
	s, _, _ := bytes.Cut(b, []byte{0})
	return string(s)
}

// disconnect leaves the controller, which ends with its admin queue.
func (q *queue) disconnect() {
	q.mu.Lock()
	c, id := q.controller, q.id
	q.mu.Unlock()
	if c == nil {
		return
	}
	c.leave(id)
	if id == 0 {
		q.drive.forget(c)
		c.end()
	}
}

func (d *Drive) newController(h host, keepAlive time.Duration) *controller {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.controllers) >= controllersMax {
		return nil
	}
	for d.lastID++; d.lastID == 0 || d.lastID >= 0xfff0 || d.controllers[d.lastID] != nil; {
		d.lastID++
	}
	c := &controller{drive: d, id: d.lastID, host: h, queues: map[uint16]*queue{}, events: make(chan uint32, 1), features: map[uint8]uint32{}}
	c.readyAt = d.readyAt
	c.setKeepAlive(keepAlive)
	d.controllers[c.id] = c
	return c
}

func (d *Drive) controller(id uint16) *controller {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.controllers[id]
}

func (d *Drive) forget(c *controller) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.controllers, c.id)
}

// Properties of a controller.
const (
	propCapabilities   = 0x00
	propVersion        = 0x08
	propConfiguration  = 0x14
	propStatus         = 0x1c
	propSubsystemReset = 0x20
)

const (
	version14 = 0x00010400

	// capabilities: queues of queueMax entries that are contiguous, 60 s to become ready, subsystem reset, NVM commands.
	capabilities = (queueMax - 1) | 1<<16 | 120<<24 | 1<<36 | 1<<37

	// resetMagic is "NVMe".
	resetMagic = 0x4e564d65
)

// fabrics executes the commands that replace the registers of a drive on PCI.
func (c *controller) fabrics(t *task) completion {
	wide, property := t.command[40]&0x07 == 1, t.dword(11)
	switch {
	case t.isFabrics(typeConnect):
		return failed(CommandSequenceError)
	case t.isFabrics(typePropertyGet) && wide && property == propCapabilities:
		return completion{result: capabilities}
	case t.isFabrics(typePropertyGet) && !wide:
		return c.property(property)
	case t.isFabrics(typePropertySet) && !wide && property == propConfiguration:
		c.configure(t.dword(12))
		return completion{}
	case t.isFabrics(typePropertySet) && !wide && property == propSubsystemReset:
		if t.dword(12) == resetMagic {
			c.drive.resetSubsystem()
		}
		return completion{}
	case t.isFabrics(typePropertyGet), t.isFabrics(typePropertySet):
		return failed(nvmectrl.InvalidField)
	}
	return failed(nvmectrl.InvalidOpcode)
}

func (c *controller) property(property uint32) completion {
	switch property {
	case propVersion:
		return completion{result: version14}
	case propConfiguration:
		return completion{result: uint64(c.configuration())}
	case propStatus:
		return completion{result: uint64(c.status())}
	case propSubsystemReset:
		return completion{}
	}
	return failed(nvmectrl.InvalidField)
}

// resetSubsystem resets the whole drive and disables all controllers. Connections stay open, because Linux waits for the
// completion of the command that does this and then connects again by itself.
func (d *Drive) resetSubsystem() {
	readyAt, err := d.reset(nvmectrl.SubsystemReset)
	d.mu.Lock()
	controllers := slices.Collect(maps.Values(d.controllers))
	d.mu.Unlock()
	for _, c := range controllers {
		c.mu.Lock()
		c.stop(readyAt, err)
		c.mu.Unlock()
	}
}
