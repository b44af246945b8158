package admin

import (
	"encoding/binary"
	"fmt"
)

// OpcodeSanitize is the admin command that erases all of an NVM subsystem.
const OpcodeSanitize = 0x84

// SanitizeAction is the Sanitize Action of Sanitize (NVMe Base Specification 2.0, section 5.22).
type SanitizeAction uint8

// The actions that are used.
const (
	BlockErase  SanitizeAction = 2
	Overwrite   SanitizeAction = 3
	CryptoErase SanitizeAction = 4
)

// Fields of command dword 10 of Sanitize.
const (
	sanitizeActions = 7
	// allowUnrestrictedExit (AUSE) lets a sanitize that failed be left without another one.
	allowUnrestrictedExit = 1 << 3
	passPosition          = 4
)

// Sanitize begins a sanitize operation, with one pass where that overwrites. The drive answers once it has begun.
func Sanitize(c Controller, action SanitizeAction) (Status, error) {
	cdw := uint32(action) | allowUnrestrictedExit
	if action == Overwrite {
		cdw |= 1 << passPosition
	}
	return c.Do(&Command{Opcode: OpcodeSanitize, CDW10: cdw, TimeoutMilliseconds: milliseconds(commitTimeout)}, nil)
}

const sanitizeLogPage = 0x81

// SanitizeState is the status of the most recent sanitize operation (SSTAT bits 2:0).
type SanitizeState uint8

// The states.
const (
	NeverSanitized SanitizeState = iota
	Sanitized
	Sanitizing
	SanitizeFailed
	// SanitizedNoDealloc is Sanitized without deallocation of the blocks, though that was asked for.
	SanitizedNoDealloc
)

// SanitizeLog is the Sanitize Status log (NVMe Base Specification 2.0, figure 290).
type SanitizeLog struct {
	State SanitizeState
	// Progress is in units of 1/65536; it means something only while State is Sanitizing.
	Progress uint16
	// GlobalDataErased says that nothing was written since the drive was made or sanitized.
	GlobalDataErased bool
	// Command is command dword 10 of the most recent Sanitize.
	Command uint32
	// Status is SSTAT as a whole, which State and GlobalDataErased are parts of.
	Status uint16
}

// String is the log page as an auditor knows its fields.
func (l SanitizeLog) String() string {
	return fmt.Sprintf("log page 81h: SPROG %04Xh, SSTAT %04Xh, SCDW10 %08Xh", l.Progress, l.Status, l.Command)
}

// Action is that of the most recent Sanitize.
func (l SanitizeLog) Action() SanitizeAction { return SanitizeAction(l.Command & sanitizeActions) }

// UnrestrictedExit reports whether the most recent Sanitize, where it failed, can be left without another one.
func (l SanitizeLog) UnrestrictedExit() bool { return l.Command&allowUnrestrictedExit != 0 }

// Bits of SSTAT.
const (
	sanitizeStates   = 7
	globalDataErased = 1 << 8
)

// ReadSanitizeLog reads the Sanitize Status log. A drive answers it also while it is being sanitized.
func ReadSanitizeLog(c Controller) (SanitizeLog, error) {
	data, err := readLog(c, "read sanitize log", sanitizeLogPage)
	if err != nil {
		return SanitizeLog{}, err
	}
	return ParseSanitizeLog(data)
}

// ParseSanitizeLog reads the log page.
func ParseSanitizeLog(b []byte) (SanitizeLog, error) {
	if len(b) < logSize {
		return SanitizeLog{}, fmt.Errorf("parse sanitize log: %d bytes instead of %d", len(b), logSize)
	}
	status := binary.LittleEndian.Uint16(b[2:])
	return NewSanitizeLog(binary.LittleEndian.Uint16(b), status, binary.LittleEndian.Uint32(b[4:]))
}

// NewSanitizeLog interprets the fields SPROG, SSTAT and SCDW10.
func NewSanitizeLog(progress, status uint16, command uint32) (SanitizeLog, error) {
	l := SanitizeLog{
		State: SanitizeState(status & sanitizeStates), Progress: progress, GlobalDataErased: status&globalDataErased != 0, Command: command, Status: status,
	}
	switch {
	case l.State > SanitizedNoDealloc:
		return SanitizeLog{}, fmt.Errorf("parse sanitize log: its status %d is unknown", l.State)
	case l.State != NeverSanitized && (l.Action() < BlockErase || l.Action() > CryptoErase):
		return SanitizeLog{}, fmt.Errorf("parse sanitize log: its action %d is unknown", l.Action())
	}
	return l, nil
}
