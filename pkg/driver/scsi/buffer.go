package scsi

import (
	"errors"
	"fmt"
)

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
