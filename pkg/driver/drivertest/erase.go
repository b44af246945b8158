package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// OpErase is an erasure that a device began.
const OpErase OperationKind = "Erase"

var _ driver.Eraser = (*Simulated)(nil)

// medium is what an erasable device stores, and its last erasure, which survives reboots and power cuts.
type medium struct {
	data    []byte
	erasure driver.Erasure
	// left is how many readings of the erasure it still takes, and steps how many one takes.
	left, steps int
	// written says that something was written since.
	written bool
}

var errOther = errors.New("it is another device now")

// eraseSteps is how many readings an erasure takes.
const eraseSteps = 4

// Erasable makes the device erase by the methods. It stores the data.
func (s *Simulated) Erasable(uniqueID string, data []byte, methods ...driver.EraseMethod) {
	s.change(uniqueID, func(d *device) {
		d.medium = &medium{data: data, steps: eraseSteps, erasure: driver.Erasure{Methods: methods, Untouched: true, By: "a simulated tool", Report: "log: never erased"}}
	})
}

// ErasesAtOnce makes the device done before anybody can ask it how far it is.
func (s *Simulated) ErasesAtOnce(uniqueID string) {
	s.change(uniqueID, func(d *device) { d.medium.steps = 0 })
}

// Shared makes the device one that another host may use.
func (s *Simulated) Shared(uniqueID string) {
	s.change(uniqueID, func(d *device) { d.medium.erasure.Shared = "another host may use it" })
}

// NoLog makes the device one that keeps nothing of an erasure which succeeded.
func (s *Simulated) NoLog(uniqueID string) {
	s.change(uniqueID, func(d *device) { d.medium.erasure.NoLog, d.medium.erasure.Untouched = true, false })
}

// Reader reads what the device stores.
func (s *Simulated) Reader(uniqueID string) io.ReaderAt { return mediumReader{s, uniqueID} }

type mediumReader struct {
	sim      *Simulated
	uniqueID string
}

// ReadAt implements io.ReaderAt. A device gives no data while it erases, and none once that has failed.
func (r mediumReader) ReadAt(b []byte, off int64) (n int, err error) {
	r.sim.change(r.uniqueID, func(d *device) {
		m := d.medium
		switch {
		case d.gone || m.erasure.State == driver.EraseRunning || m.erasure.State == driver.EraseFailed:
			err = errors.New("input/output error")
		case off >= int64(len(m.data)):
			err = io.EOF
		default:
			n = copy(b, m.data[off:])
		}
	})
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

// Holds reports whether the device stores anything but zeros.
func (s *Simulated) Holds(uniqueID string) (holds bool) {
	s.change(uniqueID, func(d *device) { holds = len(bytes.Trim(d.medium.data, "\x00")) > 0 })
	return holds
}

// Fill stores the data from the offset on.
func (s *Simulated) Fill(uniqueID string, off int, data []byte) {
	s.change(uniqueID, func(d *device) {
		copy(d.medium.data[off:], data)
		d.medium.written, d.medium.erasure.Untouched = true, false
	})
}

// Erasure reads the device's last erasure, which a reading brings on.
func (s *Simulated) Erasure(_ context.Context, id inventory.Identity) (driver.Erasure, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.open(id)
	switch {
	case err != nil:
		return driver.Erasure{}, err
	case d.faults[Unreadable]:
		return driver.Erasure{}, toolError("erasure", d, errSilent)
	case id.SerialNumber != d.id.SerialNumber:
		return driver.Erasure{}, toolError("erasure", d, errOther)
	case d.medium == nil:
		return driver.Erasure{}, nil
	}
	now := d.medium.erasure
	if now.State == driver.EraseRunning && !d.faults[HangErase] {
		d.advance()
	}
	return now, nil
}

// advance brings a running erasure on.
func (d *device) advance() {
	m := d.medium
	m.left--
	m.erasure.Percent = 100 * (m.steps - m.left) / max(m.steps, 1)
	switch {
	case m.left > 0:
		return
	case d.faults[FailErase]:
		m.erasure.State, m.erasure.Report, m.erasure.LeaveBy = driver.EraseFailed, "log: failed", "simulated-tool leave"
	default:
		m.erasure.State, m.erasure.Report, m.erasure.Untouched = driver.EraseCompleted, "log: completed", true
		if m.erasure.NoLog {
			m.erasure.State, m.erasure.Report, m.erasure.Untouched = driver.EraseNever, "it neither erases itself nor failed to", false
		}
		if !d.faults[LieErase] {
			clear(m.data)
		}
	}
	m.erasure.Percent = 0
}

// Erase begins an erasure.
func (s *Simulated) Erase(_ context.Context, id inventory.Identity, method driver.EraseMethod) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.open(id)
	reject := func(format string, args ...any) error {
		return &driver.RejectedError{Of: "erasure", Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case err != nil:
		return reject("%v", err)
	case d.faults[Unreadable]:
		return reject("%v", errSilent)
	case id.SerialNumber != d.id.SerialNumber:
		return reject("%v", errOther)
	case d.busy || d.faults[BusyWrite]:
		return toolError("erase", d, command.ErrBusy)
	case d.medium == nil || !slices.Contains(d.medium.erasure.Methods, method):
		return reject("the device does not erase by %s", method)
	case d.medium.erasure.State == driver.EraseRunning:
		return reject("the device erases already")
	case d.firmware.Pending():
		return reject("firmware waits for its activation")
	case d.faults[FailWrite]:
		return toolError("erase", d, errors.New(d.failure))
	}
	s.operations = append(s.operations, Operation{OpErase, d.id.UniqueID})
	m := d.medium
	marks := map[driver.EraseMethod]uint32{driver.EraseBlock: 0xa, driver.EraseOverwrite: 0x1b, driver.EraseCrypto: 0xc}
	m.erasure.State, m.erasure.Method, m.erasure.Report = driver.EraseRunning, method, "log: in progress"
	m.erasure.Percent, m.erasure.Untouched, m.erasure.LeaveBy, m.erasure.Mark = 0, false, "", marks[method]
	if m.erasure.NoLog {
		m.erasure.Method, m.erasure.Mark = "", 0
	}
	if m.left = m.steps; m.left == 0 {
		d.advance()
	}
	if d.faults[LostErase] {
		return toolError("erase", d, command.ErrStillRunning)
	}
	return nil
}
