package scsi

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

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
