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
	modeDefer    mode = 0x0e
	modeActivate mode = 0x0f
)

// String is the name sg_write_buffer knows the mode by.
func (m mode) String() string {
	switch m {
	case modeSave:
		return "dmc_offs_save"
	case modeDefer:
		return "dmc_offs_defer"
	case modeActivate:
		return "activate_mc"
	}
	return fmt.Sprintf("%#02x", byte(m))
}

// modes are the ones of WRITE BUFFER that a drive says it takes.
type modes struct{ Save, Defer, Activate bool }

// download is the mode to download an image with: rather one that leaves what runs alone until the image is activated.
func (m modes) download() (mode, bool) {
	switch {
	case m.Defer:
		return modeDefer, true
	case m.Save:
		return modeSave, true
	}
	return 0, false
}

// activation is what a newly written image will need, as far as can be known before. A drive that only knows how to save
// and activate at once resets itself in the middle of the write, which is as disruptive as a reset.
func (m modes) activation() inventory.Activation {
	if m.Defer && !m.Activate {
		return inventory.ActivateReboot
	}
	return inventory.ActivateDeviceReset
}

// readOnly says why the drive takes no firmware, or nothing.
func (m modes) readOnly() string {
	if _, ok := m.download(); !ok {
		return "the drive does not say that it supports a download of microcode in pieces (WRITE BUFFER, modes 0x0e and 0x07)"
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

// parseSupport reads what REPORT SUPPORTED OPERATION CODES says of WRITE BUFFER in one mode. What works in a way of the
// vendor's own counts as not supported.
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
		return false, fmt.Errorf("parse supported operation codes: the drive cannot say now (%d)", support)
	}
}
