package scsi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// inquiryLength is the part of the standard INQUIRY data that every SCSI device has (SPC-5, table 148).
const inquiryLength = 36

// Peripheral device types of disks (SPC-5, table 151).
const (
	typeDisk  = 0x00
	typeZoned = 0x14
)

// inquiry is the part of the standard INQUIRY data that is about firmware.
type inquiry struct {
	Vendor, Model string
	Revision      inventory.Version
}

func parseInquiry(out []byte) (inquiry, error) {
	switch {
	case len(out) < inquiryLength:
		return inquiry{}, fmt.Errorf("parse INQUIRY data: %d bytes instead of %d", len(out), inquiryLength)
	case out[0] != typeDisk && out[0] != typeZoned:
		return inquiry{}, fmt.Errorf("parse INQUIRY data: peripheral qualifier and type %#02x are not those of a disk", out[0])
	}
	vendor, err := text(out[8:16])
	if err != nil {
		return inquiry{}, fmt.Errorf("parse INQUIRY data: vendor: %w", err)
	}
	model, err := text(out[16:32])
	if err != nil {
		return inquiry{}, fmt.Errorf("parse INQUIRY data: product: %w", err)
	}
	revision, err := text(out[32:36])
	if err != nil {
		return inquiry{}, fmt.Errorf("parse INQUIRY data: revision: %w", err)
	}
	i := inquiry{Vendor: vendor, Model: model, Revision: inventory.NormalizeVersion(revision)}
	if i.Revision == "" {
		return inquiry{}, errors.New("parse INQUIRY data: the revision is empty")
	}
	return i, nil
}

// parseSerial reads the Unit Serial Number page (SPC-5, 7.7.19).
func parseSerial(out []byte) (string, error) {
	if len(out) < 4 || out[1] != 0x80 {
		return "", errors.New("parse serial number: this is not the page 0x80")
	}
	length := int(binary.BigEndian.Uint16(out[2:]))
	if len(out) < 4+length {
		return "", fmt.Errorf("parse serial number: %d bytes instead of %d", len(out)-4, length)
	}
	serial, err := text(out[4 : 4+length])
	if err != nil {
		return "", fmt.Errorf("parse serial number: %w", err)
	}
	return serial, nil
}

// parsePowerOnHours reads the Background Scan log page, whose first parameter begins with the accumulated power-on minutes (SBC-4, 6.4.2).
func parsePowerOnHours(out []byte) (int64, error) {
	const header, parameter = 4, 16
	switch {
	case len(out) < header || out[0]&0x3f != 0x15:
		return 0, errors.New("parse log page: this is not the page 0x15")
	case len(out) < header+parameter || int(binary.BigEndian.Uint16(out[2:])) < parameter:
		return 0, fmt.Errorf("parse log page 0x15: %d bytes instead of %d", len(out), header+parameter)
	case binary.BigEndian.Uint16(out[4:]) != 0 || out[7] != parameter-4:
		return 0, errors.New("parse log page 0x15: it does not begin with the background scan status")
	}
	hours := int64(binary.BigEndian.Uint32(out[8:]) / 60)
	if hours > inventory.MostPowerOnHours {
		return 0, fmt.Errorf("parse log page 0x15: %d hours are no such count", hours)
	}
	return hours, nil
}

// text is an ASCII field without its padding.
func text(field []byte) (string, error) {
	s := strings.Trim(string(field), " \x00")
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return "", fmt.Errorf("%q is not ASCII", s)
		}
	}
	return s, nil
}

// mode is a mode of WRITE BUFFER (SPC-5, table 317).
type mode byte

// The modes this driver sends.
const (
	modeSave     mode = 0x07
	modeSelect   mode = 0x0d
	modeDefer    mode = 0x0e
	modeActivate mode = 0x0f
)

// String is sg_write_buffer's name of the mode.
func (m mode) String() string {
	switch m {
	case modeSave:
		return "dmc_offs_save"
	case modeSelect:
		return "dmc_offs_ev_defer"
	case modeDefer:
		return "dmc_offs_defer"
	case modeActivate:
		return "activate_mc"
	}
	return fmt.Sprintf("%#02x", byte(m))
}

// The mode-specific field of mode 0x0d: the events that activate the microcode (SPC-5, WRITE BUFFER, PO_ACT and HR_ACT).
const (
	eventPowerOn   = 1 << 2
	eventHardReset = 1 << 1
)

// modes are the modes of WRITE BUFFER that a drive supports, and what activates microcode.
type modes struct {
	Save, Select, Defer, Activate bool
	extended
}

// download is the mode to download an image with, and its mode-specific field. It prefers one that leaves the running
// firmware alone until the image is activated.
func (m modes) download() (use mode, specific int, found bool) {
	switch {
	case m.Defer:
		return modeDefer, 0, true
	case m.Select && m.events() != 0:
		return modeSelect, m.events(), true
	case m.Select && m.Activate:
		return modeSelect, 0, true
	case m.Save:
		return modeSave, 0, true
	}
	return 0, 0, false
}

// events are the events that the drive can let activate deferred microcode.
func (m modes) events() (specific int) {
	if m.OnPowerOn {
		specific |= eventPowerOn
	}
	if m.OnHardReset {
		specific |= eventHardReset
	}
	return specific
}

// atWrite reports whether a download may start what it downloads.
func (m modes) atWrite() bool {
	use, _, _ := m.download()
	return use == modeSave && m.After != afterReset
}

// activation is what a newly written image will need, as far as that is known in advance. A drive that saves and activates
// at once resets itself during the write, which is as disruptive as a reset. Microcode of mode 0x0e is activated by a power-on
// and by a hard reset, that of mode 0x0d by what the drive supports of these.
func (m modes) activation() inventory.Activation {
	switch use, specific, _ := m.download(); {
	case use == modeSave && m.After == afterReset:
		return inventory.ActivateReboot
	case use == modeSave || m.Activate:
		return inventory.ActivateDeviceReset
	case use == modeSelect && specific == eventPowerOn:
		return inventory.ActivatePowerCycle
	case use == modeDefer || use == modeSelect:
		return inventory.ActivateReboot
	}
	return inventory.ActivateDeviceReset
}

// readOnly says why the drive cannot be written; empty when it can.
func (m modes) readOnly() string {
	if _, _, ok := m.download(); !ok {
		return "the drive does not report that it supports the download of microcode in pieces (WRITE BUFFER, modes 0x0e, 0x0d and 0x07)"
	}
	return ""
}

// The SUPPORT field of REPORT SUPPORTED OPERATION CODES (SPC-5, table 243).
const (
	supportUnsupported = 1
	supportStandard    = 3
	supportVendor      = 5
)

// writeBufferLength is the length of a WRITE BUFFER command.
const writeBufferLength = 10

// parseSupport parses the answer of REPORT SUPPORTED OPERATION CODES for WRITE BUFFER, or for one mode of it. A
// vendor-specific implementation counts as not supported.
func parseSupport(out []byte) (bool, error) {
	if len(out) < 4 || out[0] != 0 {
		return false, errors.New("parse supported operation codes: this is not the answer for one command")
	}
	switch support := out[1] & 7; support {
	case supportUnsupported:
		return false, nil
	case supportStandard, supportVendor:
		length := int(binary.BigEndian.Uint16(out[2:]))
		if length != writeBufferLength || len(out) < 4+length {
			return false, fmt.Errorf("parse supported operation codes: a command of %d bytes instead of %d", length, writeBufferLength)
		}
		return support == supportStandard, nil
	default:
		return false, fmt.Errorf("parse supported operation codes: the drive cannot report it now (%d)", support)
	}
}

// after says when microcode runs that was saved without being deferred (ACTIVATE MICROCODE, SPC-5, 7.7.7).
type after byte

// The values of ACTIVATE MICROCODE that are defined; 0 is that of a drive which does not say.
const (
	// afterWrite: it runs when the last WRITE BUFFER command ends.
	afterWrite after = 1
	// afterReset: it runs after a power-on or a hard reset.
	afterReset after = 2
)

// extended is the part of the Extended INQUIRY Data page that is about microcode (SPC-5, 7.7.7). Its zero value is that of a
// drive without the page.
type extended struct {
	After after
	// OnPowerOn and OnHardReset are the events that the drive can let activate microcode of mode 0x0d (POA_SUP, HRA_SUP).
	OnPowerOn, OnHardReset bool
	// Listed are the modes that the drive supports, nil where it does not list them (DMS_VALID, since SPC-5 revision 20).
	Listed map[mode]bool
}

const (
	extendedCode = 0x86
	// Offsets in the page. Older pages end before the last ones.
	extendedActivate, extendedEvents, extendedModes = 4, 12, 19
)

// parseExtended reads the page. Fields beyond its end are zero.
func parseExtended(out []byte) (extended, error) {
	if len(out) < 4 || out[1] != extendedCode {
		return extended{}, errors.New("parse extended INQUIRY data: this is not the page 0x86")
	}
	length := int(binary.BigEndian.Uint16(out[2:]))
	if len(out) < 4+length {
		return extended{}, fmt.Errorf("parse extended INQUIRY data: %d bytes instead of %d", len(out)-4, length)
	}
	field := func(at int) byte {
		if at >= 4+length {
			return 0
		}
		return out[at]
	}
	events, listed := field(extendedEvents), field(extendedModes)
	e := extended{After: after(field(extendedActivate) >> 6), OnPowerOn: events&0x80 != 0, OnHardReset: events&0x40 != 0}
	if events&0x10 != 0 {
		e.Listed = map[mode]bool{
			modeSave: listed&0x10 != 0, modeSelect: listed&0x08 != 0, modeDefer: listed&0x04 != 0, modeActivate: listed&0x02 != 0,
		}
	}
	return e, nil
}
