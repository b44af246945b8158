package nvmetcp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

const (
	// queueMax is the most commands a queue holds.
	queueMax = 128
	// greetingTime bounds the time until a queue is connected.
	greetingTime = 10 * time.Second
	// sendTime bounds one write to a host that does not read.
	sendTime = 30 * time.Second
	// partingTime is how long a host has to read why its connection is terminated.
	partingTime = time.Second
)

// queue is a connection. After the Connect command it is the admin queue of a new controller or an I/O queue of an existing
// one.
type queue struct {
	drive *Drive
	conn  net.Conn
	// align is the alignment of data that the host asked for, in bytes.
	align int

	tasks sync.WaitGroup

	mu sync.Mutex
	// controller is nil before Connect; id and size are the queue's number and how many commands it holds.
	controller *controller
	id         uint16
	size       int
	running    map[uint16]*task
	transfers  map[uint16]*transfer

	sending sync.Mutex
	head    uint16
}

// transfer is the data of a command that was requested from the host. Its tag is the id of the command.
type transfer struct {
	task     *task
	received int
}

func newQueue(d *Drive, conn net.Conn) *queue {
	return &queue{drive: d, conn: conn, size: 1, running: map[uint16]*task{}, transfers: map[uint16]*transfer{}}
}

// serve executes the commands of a host until the connection ends, and returns why it ended.
func (q *queue) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { q.conn.Close() })()
	defer func() {
		cancel()
		q.conn.Close()
		q.tasks.Wait()
		q.disconnect()
	}()
	err := q.receive(ctx)
	if wrong, ok := errors.AsType[*protocolError](err); ok {
		q.terminate(wrong)
	}
	return err
}

func (q *queue) receive(ctx context.Context) error {
	if err := q.conn.SetReadDeadline(time.Now().Add(greetingTime)); err != nil {
		return err
	}
	if err := q.greet(); err != nil {
		return err
	}
	for {
		p, err := readPDU(q.conn)
		if err != nil {
			return err
		}
		switch p.kind {
		case capsuleCmd:
			err = q.capsule(ctx, p)
		case hostData:
			err = q.hostData(p)
		case hostTerm:
			return errTerminated
		default:
			err = &protocolError{status: fatalSequence, what: fmt.Sprintf("PDU type 0x%02x after the greeting", uint8(p.kind))}
		}
		if err != nil {
			return err
		}
	}
}

// greet negotiates version 0 without digests, whatever the host asks for.
func (q *queue) greet() error {
	p, err := readPDU(q.conn)
	if err != nil {
		return err
	}
	if p.kind != icRequest {
		return &protocolError{status: fatalSequence, what: fmt.Sprintf("PDU type 0x%02x for a greeting", uint8(p.kind))}
	}
	version, align := binary.LittleEndian.Uint16(p.fields), p.fields[2]
	if version != 0 || align > 31 {
		return &protocolError{status: fatalParam, info: 8, what: fmt.Sprintf("version %d, alignment %d", version, align)}
	}
	q.align = 4 * (int(align) + 1)
	return q.send(makeICResponse())
}

// capsule starts a command or requests its data.
func (q *queue) capsule(ctx context.Context, p pdu) error {
	c, err := parseCommand(p.fields)
	if err != nil {
		return err
	}
	t := &task{command: c, data: p.data}
	t.context, t.cancel = context.WithCancel(ctx)
	status := t.check(len(p.data))
	q.mu.Lock()
	if len(q.running) >= q.size {
		q.mu.Unlock()
		t.cancel()
		return &protocolError{status: fatalSequence, what: "more commands than the queue holds"}
	}
	if q.running[t.id()] != nil {
		q.mu.Unlock()
		t.cancel()
		return q.respond(t.id(), failed(CommandIDConflict))
	}
	q.running[t.id()] = t
	wants := status == nvmectrl.Success && t.direction() == toDrive && !t.carriesData() && t.dataLength() > 0
	if wants {
		t.data = make([]byte, t.dataLength())
		q.transfers[t.id()] = &transfer{task: t}
	}
	q.mu.Unlock()
	if wants {
		return q.send(makeReadyToTake(t.id(), t.id(), t.dataLength()))
	}
	q.start(t, status)
	return nil
}

// hostData receives requested data of a command, which must come in order.
func (q *queue) hostData(p pdu) error {
	id, tag := binary.LittleEndian.Uint16(p.fields), binary.LittleEndian.Uint16(p.fields[2:])
	offset, length := binary.LittleEndian.Uint32(p.fields[4:]), binary.LittleEndian.Uint32(p.fields[8:])
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.transfers[tag]
	switch {
	case w == nil || tag != id:
		return &protocolError{status: fatalHeader, info: 8, what: "data that was not asked for"}
	case length != uint32(len(p.data)):
		return &protocolError{status: fatalHeader, info: 16, what: "data of another length than its PDU"}
	case offset != uint32(w.received):
		return &protocolError{status: fatalRange, info: 12, what: "data out of order"}
	case len(p.data) > len(w.task.data)-w.received:
		return &protocolError{status: fatalRange, info: 16, what: "more data than was asked for"}
	}
	w.received += copy(w.task.data[w.received:], p.data)
	complete := w.received == len(w.task.data)
	if last := p.flags&flagLast != 0; last != complete {
		return &protocolError{status: fatalHeader, info: atFlags, what: "the last data is not the last"}
	}
	if complete {
		delete(q.transfers, tag)
		q.start(w.task, nvmectrl.Success)
	}
	return nil
}

// start executes a task, or completes it with a status that is known already.
func (q *queue) start(t *task, status nvmectrl.Status) {
	q.tasks.Go(func() {
		defer t.cancel()
		done := failed(status)
		if status == nvmectrl.Success {
			done = q.execute(t)
		}
		if done.status == nvmectrl.Success && done.data != nil && uint32(len(done.data)) != t.dataLength() {
			done = failed(DataLengthInvalid)
		}
		q.mu.Lock()
		delete(q.running, t.id())
		q.mu.Unlock()
		if err := q.respond(t.id(), done); err != nil {
			q.conn.Close()
		}
	})
}

func (q *queue) execute(t *task) completion {
	q.mu.Lock()
	c, id := q.controller, q.id
	q.mu.Unlock()
	switch {
	case c == nil && t.isFabrics(typeConnect):
		return q.connect(t)
	case c == nil:
		return failed(CommandSequenceError)
	}
	c.touch()
	switch {
	case t.opcode() == opFabrics:
		return c.fabrics(t)
	case !c.ready():
		return failed(CommandSequenceError)
	case id == 0:
		return c.admin(q, t)
	}
	return q.drive.io(t)
}

// abort aborts the command with this id and reports whether it did.
func (q *queue) abort(id uint16) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.running[id]
	return t != nil && t.abort()
}

func (q *queue) respond(id uint16, c completion) error {
	var data []byte
	if c.status == nvmectrl.Success && len(c.data) > 0 {
		data = makeData(id, c.data, q.align)
	}
	q.mu.Lock()
	queueID, size := q.id, q.size
	q.mu.Unlock()
	q.sending.Lock()
	defer q.sending.Unlock()
	q.head = (q.head + 1) % uint16(size)
	e := entry{result: c.result, queueHead: q.head, queue: queueID, commandID: id, status: c.status}
	return q.write(append(data, makeResponse(e)...))
}

func (q *queue) send(b []byte) error {
	q.sending.Lock()
	defer q.sending.Unlock()
	return q.write(b)
}

func (q *queue) write(b []byte) error {
	if err := q.conn.SetWriteDeadline(time.Now().Add(sendTime)); err != nil {
		return err
	}
	_, err := q.conn.Write(b)
	return err
}

// terminate reports the error to the host and closes the connection. Closing it at once would discard the report.
func (q *queue) terminate(wrong *protocolError) {
	q.drive.config.Log.Warn("Ended a connection", "host", q.conn.RemoteAddr(), "reason", wrong.what)
	if q.send(makeTerm(wrong)) != nil {
		return
	}
	half, ok := q.conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || q.conn.SetReadDeadline(time.Now().Add(partingTime)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, q.conn) // how the host closes does not matter
}
