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

// String is sg_write_buffer's name of the mode.
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

// modes are the modes of WRITE BUFFER that a drive reports as supported.
type modes struct{ Save, Defer, Activate bool }

// download is the mode to download an image with. It prefers one that leaves the running firmware alone until the image
// is activated.
func (m modes) download() (mode, bool) {
	switch {
	case m.Defer:
		return modeDefer, true
	case m.Save:
		return modeSave, true
	}
	return 0, false
}

// activation is what a newly written image will need, as far as that is known in advance. A drive that can only save
// and activate at once resets itself during the write, which is as disruptive as a reset.
func (m modes) activation() inventory.Activation {
	if m.Defer && !m.Activate {
		return inventory.ActivateReboot
	}
	return inventory.ActivateDeviceReset
}

// readOnly says why the drive cannot be written; empty when it can.
func (m modes) readOnly() string {
	if _, ok := m.download(); !ok {
		return "the drive does not report that it supports the download of microcode in pieces (WRITE BUFFER, modes 0x0e and 0x07)"
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

// parseSupport parses the answer of REPORT SUPPORTED OPERATION CODES for one mode of WRITE BUFFER. A vendor-specific
// implementation counts as not supported.
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
