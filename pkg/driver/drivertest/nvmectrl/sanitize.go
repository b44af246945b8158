package nvmectrl

import "encoding/binary"

// SanitizeStatus is the status of the most recent sanitize operation (SSTAT bits 2:0).
type SanitizeStatus uint8

// The statuses.
const (
	NeverSanitized SanitizeStatus = iota
	SanitizeDone
	Sanitizing
	SanitizeBroken
)

// Sanitize is the most recent sanitize operation. As JSON it can be in the drive's state file.
type Sanitize struct {
	Status SanitizeStatus `json:"status,omitempty"`
	// Command is command dword 10 of it, and Started counts how many there were.
	Command uint32 `json:"command,omitempty"`
	Started int    `json:"started,omitempty"`
	// Steps is how many steps it takes, and Left how many are left.
	Steps int `json:"steps,omitempty"`
	Left  int `json:"left,omitempty"`
	// Fails makes it fail with its last step, and Stops makes it stay where it is.
	Fails bool `json:"fails,omitempty"`
	Stops bool `json:"stops,omitempty"`
	// Written says that something was written since it was done.
	Written bool `json:"written,omitempty"`
}

// Actions of Sanitize (command dword 10 bits 2:0).
const (
	sanitizeBlockErase  = 2
	sanitizeOverwrite   = 3
	sanitizeCryptoErase = 4
	sanitizeActions     = 7
)

// StartSanitize is the Sanitize command.
func (c *Controller) StartSanitize(command uint32) Status {
	bit := map[uint32]byte{sanitizeCryptoErase: 1, sanitizeBlockErase: 2, sanitizeOverwrite: 4}[command&sanitizeActions]
	switch {
	case c.Sanitizes == 0:
		return InvalidOpcode
	case c.Sanitize.Status == Sanitizing:
		return SanitizeInProgress
	case c.Sanitizes&bit == 0:
		return InvalidField
	case c.Next != 0:
		return NeedsControllerReset
	}
	last := c.Sanitize
	steps := max(c.SanitizeSteps, 1)
	c.Sanitize = Sanitize{
		Status: Sanitizing, Command: command, Started: last.Started + 1, Steps: steps, Left: steps, Fails: last.Fails, Stops: last.Stops,
	}
	return Success
}

// Advance makes a running operation take a step, and reports whether it did.
func (s *Sanitize) Advance() bool {
	if s.Status != Sanitizing || s.Stops {
		return false
	}
	s.Left--
	switch {
	case s.Left > 0:
	case s.Fails:
		s.Status = SanitizeBroken
	default:
		s.Status = SanitizeDone
	}
	return true
}

// Blocks is the answer to a command that is not allowed while the drive is sanitized, or once that has failed; Success where it is.
func (s *Sanitize) Blocks() Status {
	switch s.Status {
	case Sanitizing:
		return SanitizeInProgress
	case SanitizeBroken:
		return SanitizeFailed
	}
	return Success
}

// Progress is SPROG.
func (s *Sanitize) Progress() uint16 {
	if s.Status != Sanitizing {
		return 0xffff
	}
	return uint16((s.Steps - s.Left) << 16 / s.Steps)
}

// Erased reports whether nothing was written since it was done, or ever.
func (s *Sanitize) Erased() bool { return !s.Written && s.Status == SanitizeDone }

// log is the Sanitize Status log (figure 290). The estimates are not known.
func (s *Sanitize) log() []byte {
	b := make([]byte, logSize)
	le := binary.LittleEndian
	le.PutUint16(b[0:], s.Progress())
	le.PutUint16(b[2:], uint16(s.Status))
	if s.Erased() {
		b[3] = 1
	}
	le.PutUint32(b[4:], s.Command)
	for at := 8; at < 32; at++ {
		b[at] = 0xff
	}
	return b
}
