package scsi

import (
	"encoding/binary"
	"errors"
	"fmt"
)

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
