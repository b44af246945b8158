package scsi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

type state struct {
	inquiry
	// Serial is empty for a drive without a Unit Serial Number page.
	Serial string
	modes  modes
	// buffer is read of drives that take microcode.
	buffer buffer
	// erasing says why a drive answers nothing about microcode, which erases itself or failed to; empty for others.
	erasing string
}

// read queries the drive. It checks that the device node still belongs to the same drive: names move to another drive
// when one is pulled and another plugged in.
func (d *Driver) read(ctx context.Context, id inventory.Identity) (state, error) {
	if id.Node == "" {
		return state{}, fmt.Errorf("find drive %s: the kernel has no device for it", id.UniqueID)
	}
	var s state
	var err error
	if s.inquiry, err = ask(ctx, d, standardInquiry(device(id)), parseInquiry); err != nil {
		return state{}, fmt.Errorf("inquire %s: %w", device(id), err)
	}
	if s.Serial, err = optional(ctx, d, serialPage(device(id)), parseSerial); err != nil {
		return state{}, fmt.Errorf("read serial number of %s: %w", device(id), err)
	}
	if s.Serial != "" && id.SerialNumber != "" && s.Serial != id.SerialNumber {
		return state{}, fmt.Errorf("find drive %s: %s is another drive now, with serial number %s instead of %s: scan again",
			id.UniqueID, device(id), s.Serial, id.SerialNumber)
	}
	if err = d.readMicrocode(ctx, device(id), &s); err == nil {
		return s, nil
	}
	if failed, ok := errors.AsType[*command.Error](err); ok && (failed.ExitCode == exitNotReady || failed.ExitCode == exitMediumError) {
		if s.erasing = d.erasing(ctx, device(id)); s.erasing != "" {
			s.modes, s.buffer = modes{}, buffer{}
			return s, nil
		}
	}
	return state{}, err
}

// readMicrocode reads what the drive says of downloads. One that erases itself answers none of it.
func (d *Driver) readMicrocode(ctx context.Context, device string, s *state) (err error) {
	if s.modes, err = d.readModes(ctx, device); err != nil || s.modes.readOnly() != "" {
		return err
	}
	if s.buffer, err = optional(ctx, d, descriptor(device), parseDescriptor); err != nil {
		return fmt.Errorf("read buffer descriptor of %s: %w", device, err)
	}
	return nil
}

// erasing says that the drive erases itself or failed to; empty where it does not say so.
func (d *Driver) erasing(ctx context.Context, device string) string {
	switch now, err := d.sense(ctx, device); {
	case err != nil:
		return ""
	case now.additional == senseSanitizing:
		return "the drive is being sanitized, and neither reports nor takes firmware until it is done"
	case now.additional == senseSanitizeFailed:
		return fmt.Sprintf("a sanitize of the drive failed, and it gives no data; end that state with %q on the node, or, where the drive refuses that, "+
			"with another sanitize by hand", leave(device))
	}
	return ""
}

// readOnly says why the drive cannot be written; empty when it can.
func (s state) readOnly() string {
	if s.erasing != "" {
		return s.erasing
	}
	if reason := s.modes.readOnly(); reason != "" {
		return reason
	}
	if _, err := s.buffer.piece(); err != nil {
		return err.Error()
	}
	return ""
}

// readModes asks which modes of WRITE BUFFER the drive supports: for each mode as a service action; where the drive knows no
// service actions of the command, as the page of extended INQUIRY data lists them; and where it lists none, whether it takes
// the command at all. Then mode 0x07 is tried, which every drive has that takes microcode in pieces: one that has not refuses
// the first piece, and nothing was written.
func (d *Driver) readModes(ctx context.Context, device string) (modes, error) {
	var m modes
	var err error
	answered := false
	if m.extended, err = optional(ctx, d, extendedPage(device), parseExtended); err != nil {
		return modes{}, fmt.Errorf("read extended INQUIRY data of %s: %w", device, err)
	}
	for _, mode := range []struct {
		mode  mode
		takes *bool
	}{{modeSave, &m.Save}, {modeSelect, &m.Select}, {modeDefer, &m.Defer}, {modeActivate, &m.Activate}} {
		*mode.takes, err = ask(ctx, d, supports(device, mode.mode), parseSupport)
		switch {
		case unsupported(err): // some refuse the question for a mode that they do not have
		case err != nil:
			return modes{}, fmt.Errorf("ask %s for WRITE BUFFER mode %s: %w", device, mode.mode, err)
		default:
			answered = true
		}
	}
	if !answered {
		return d.readModesOtherwise(ctx, device, m.extended)
	}
	return m, nil
}

// readModesOtherwise is readModes for a drive that does not answer for single modes.
func (d *Driver) readModesOtherwise(ctx context.Context, device string, page extended) (modes, error) {
	if l := page.Listed; l != nil {
		return modes{Save: l[modeSave], Select: l[modeSelect], Defer: l[modeDefer], Activate: l[modeActivate], extended: page}, nil
	}
	takes, err := optional(ctx, d, supportsAny(device), parseSupport)
	if err != nil {
		return modes{}, fmt.Errorf("ask %s for WRITE BUFFER: %w", device, err)
	}
	return modes{Save: takes, extended: page}, nil
}

// run runs a command, and once more if the drive answered with a unit attention. A drive that was reset or changed its
// microcode reports that on the next command instead of executing it. A repeated download begins with its first byte.
func (d *Driver) run(ctx context.Context, c command.Command) (command.Result, error) {
	r, err := d.once(ctx, c)
	if err == nil && r.ExitCode == exitUnitAttention {
		r, err = d.once(ctx, c)
	}
	return r, err
}

// once runs a command that must not be repeated without looking at the drive again.
func (d *Driver) once(ctx context.Context, c command.Command) (command.Result, error) {
	r, err := d.runner.Run(ctx, c)
	if err == nil && r.ExitCode == 0 && bytes.Contains(r.Stderr, []byte("unrecognized option")) { // the tools exit with 0 then
		return r, command.Failed(c, r, errors.New("the tool did nothing, because it does not know an option: sg3_utils 1.46 or newer is needed"))
	}
	return r, err
}

func ask[T any](ctx context.Context, d *Driver, c command.Command, parse func([]byte) (T, error)) (T, error) {
	var none T
	r, err := d.run(ctx, c)
	if err != nil {
		return none, err
	}
	if r.ExitCode != 0 {
		return none, classify(c, r)
	}
	v, err := parse(r.Stdout)
	if err != nil {
		return none, command.Failed(c, r, err)
	}
	return v, nil
}

// optional is ask for something a drive may lack: it returns the zero value when the drive does not support the query.
func optional[T any](ctx context.Context, d *Driver, c command.Command, parse func([]byte) (T, error)) (T, error) {
	v, err := ask(ctx, d, c, parse)
	if unsupported(err) {
		return v, nil
	}
	return v, err
}

// unsupported reports whether the drive does not know the question.
func unsupported(err error) bool {
	var failed *command.Error
	return errors.As(err, &failed) && slices.Contains([]int{exitIllegalRequest, exitInvalidOpcode, exitIllegalWithInfo, exitNoPage}, failed.ExitCode)
}

// Pieces of an image in bytes.
const (
	// usualPiece fits the limits of all controllers and kernels.
	usualPiece = 4 << 10
	// maxPiece is what every kernel transfers in one command.
	maxPiece = 64 << 10
)

// buffer is the READ BUFFER descriptor of the buffer that microcode is written to (SPC-5, 6.18.5). Its zero value is that of
// a drive without the descriptor.
type buffer struct {
	// Boundary is the power of two that offsets are multiples of; whole where the only offset is 0.
	Boundary byte
	// Capacity in bytes; 0 where the drive does not say.
	Capacity int
}

const (
	descriptorLength = 4
	// whole is the OFFSET BOUNDARY of a drive that takes an image in one command only.
	whole = 0xff
)

// parseDescriptor reads the descriptor.
func parseDescriptor(out []byte) (buffer, error) {
	if len(out) != descriptorLength {
		return buffer{}, fmt.Errorf("parse buffer descriptor: %d bytes instead of %d", len(out), descriptorLength)
	}
	b := buffer{Boundary: out[0], Capacity: int(out[1])<<16 | int(out[2])<<8 | int(out[3])}
	if b.Boundary > 24 && b.Boundary != whole {
		return buffer{}, fmt.Errorf("parse buffer descriptor: an offset of 24 bits cannot be a multiple of 2^%d", b.Boundary)
	}
	return b, nil
}

// piece is how many bytes of an image one command carries.
func (b buffer) piece() (int, error) {
	if b.Boundary == whole {
		return 0, errors.New("the drive takes an image in one command only (READ BUFFER descriptor, offset boundary 0xff), " +
			"and controllers do not transfer so much at once: use the tool of its vendor")
	}
	unit := 1 << b.Boundary
	if unit > maxPiece {
		return 0, fmt.Errorf("the drive wants pieces of %d bytes (READ BUFFER descriptor), and controllers may transfer no more than %d: "+
			"use the tool of its vendor", unit, maxPiece)
	}
	size := max(unit, usualPiece)
	if b.Capacity == 0 {
		return size, nil
	}
	if size = min(size, b.Capacity/unit*unit); size == 0 {
		return 0, fmt.Errorf("the drive wants pieces of %d bytes for a buffer of %d (READ BUFFER descriptor)", unit, b.Capacity)
	}
	return size, nil
}

// Exit codes of sg3_utils (sg3_utils(8)).
const (
	exitSyntax          = 1
	exitNotReady        = 2
	exitMediumError     = 3
	exitIllegalRequest  = 5
	exitUnitAttention   = 6
	exitDataProtect     = 7
	exitInvalidOpcode   = 9
	exitAborted         = 11
	exitFile            = 15
	exitIllegalWithInfo = 17
	// exitParameter is, since sg3_utils 1.48, that of an illegal request for a field of what was sent.
	exitParameter     = 19
	exitReservation   = 24
	exitBusy          = 26
	exitTaskSetFull   = 27
	exitContradiction = 31
	exitTimeout       = 33
	// exitNoPage is 50 plus EDOM: sg_inq's exit code when the drive does not list the page.
	exitNoPage = 83
)

// Additional sense as sg3_utils spells it.
const (
	senseInvalidCDB      = "Invalid field in cdb"
	senseCommandSequence = "Command sequence error"
)

// says reports whether the tool printed the additional sense.
func says(r command.Result, sense string) bool {
	return bytes.Contains(bytes.ToLower(r.Stderr), bytes.ToLower([]byte("Additional sense: "+sense)))
}

func illegal(r command.Result) bool {
	return r.ExitCode == exitIllegalRequest || r.ExitCode == exitIllegalWithInfo || r.ExitCode == exitParameter
}

// classifyDownload turns the result of a download by sg_write_buffer into an error. The drive has reported that it
// supports the mode, so an illegal request is about the image, unless it is about a field of the command.
func classifyDownload(c command.Command, r command.Result) error {
	switch {
	case r.ExitCode == 0:
		return nil
	case illegal(r) && !says(r, senseInvalidCDB):
		return driver.Rejectf("the drive does not accept the image: it is damaged, for another model, or prohibited")
	}
	return classify(c, r)
}

func classify(c command.Command, r command.Result) error {
	reason := "the drive failed the command"
	switch r.ExitCode {
	case exitNotReady:
		reason = "the drive is not ready: try again when it is"
	case exitIllegalRequest, exitIllegalWithInfo, exitParameter:
		reason = "the drive rejects a field of the command"
	case exitUnitAttention:
		reason = "the drive reports one unit attention after another: find out who resets it and try again"
	case exitInvalidOpcode:
		reason = "the drive does not know the command"
	case exitAborted:
		reason = "the drive aborted the command: end other programs that update it and try again"
	case exitReservation:
		reason = "another host holds a reservation of the drive: release it and try again"
	case exitBusy:
		reason = "the drive is busy: try again"
	case exitTimeout:
		reason = "the drive did not answer in time: read it before doing anything else"
	}
	return command.Failed(c, r, errors.New(reason))
}
