package scsi

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sense keys (SPC-5, table 49).
const (
	keyNoSense       = 0x0
	keyRecovered     = 0x1
	keyMediumError   = 0x3
	keyUnitAttention = 0x6
)

// additional is an additional sense code with its qualifier.
type additional uint16

// The additional sense of a sanitize (SPC-5, table E.13).
const (
	senseSanitizing     additional = 0x041b // LOGICAL UNIT NOT READY, SANITIZE IN PROGRESS
	senseSanitizeFailed additional = 0x3103 // SANITIZE COMMAND FAILED
)

// sense is what REQUEST SENSE returns of the state of a drive.
type sense struct {
	Key byte
	additional
	// Progress is the progress indication in 1/65536; 0 where there is none.
	Progress int
}

// String is in the form in which standards and the kernel write it.
func (s sense) String() string {
	return fmt.Sprintf("sense %02Xh/%02Xh/%02Xh", s.Key, byte(s.additional>>8), byte(s.additional))
}

// Sense data (SPC-5, 4.5).
const (
	// Response codes, in the lower bits of the first byte, of fixed and of descriptor format. The odd ones are of an earlier command.
	fixedCurrent, fixedDeferred           = 0x70, 0x71
	descriptorCurrent, descriptorDeferred = 0x72, 0x73
	// shortestFixed ends with the additional sense, wholeFixed with the sense key specific field, and shortestDescriptor before the descriptors.
	shortestFixed, wholeFixed, shortestDescriptor = 14, 18, 8
	// The descriptors with sense key specific data, and with progress alone.
	descriptorSpecific, descriptorProgress = 0x02, 0x0a
	// specificValid is SKSV.
	specificValid = 0x80
)

// parseSense reads sense data of either format.
func parseSense(out []byte) (sense, error) {
	if len(out) < shortestDescriptor {
		return sense{}, fmt.Errorf("parse sense data: %d bytes are too few", len(out))
	}
	length := shortestDescriptor + int(out[7])
	switch out[0] & 0x7f {
	case fixedCurrent, fixedDeferred:
		return parseFixed(out[:min(len(out), length)])
	case descriptorCurrent, descriptorDeferred:
		if len(out) < length {
			return sense{}, fmt.Errorf("parse sense data: %d bytes instead of %d", len(out), length)
		}
		return parseDescriptors(out[:length])
	}
	return sense{}, errors.New("parse sense data: these are none")
}

func parseFixed(out []byte) (sense, error) {
	if len(out) < shortestFixed {
		return sense{}, fmt.Errorf("parse sense data: %d bytes instead of %d", len(out), shortestFixed)
	}
	s := sense{Key: out[2] & 0xf, additional: additional(binary.BigEndian.Uint16(out[12:]))}
	if len(out) >= wholeFixed && out[15]&specificValid != 0 {
		s.Progress = int(binary.BigEndian.Uint16(out[16:]))
	}
	return s, nil
}

func parseDescriptors(out []byte) (sense, error) {
	s := sense{Key: out[1] & 0xf, additional: additional(binary.BigEndian.Uint16(out[2:]))}
	for rest := out[shortestDescriptor:]; len(rest) > 0; {
		if len(rest) < 2 || len(rest) < 2+int(rest[1]) {
			return sense{}, errors.New("parse sense data: a descriptor is cut off")
		}
		d := rest[:2+int(rest[1])]
		rest = rest[len(d):]
		switch {
		case d[0] == descriptorSpecific && len(d) == 8 && d[4]&specificValid != 0:
			s.Progress = int(binary.BigEndian.Uint16(d[5:]))
		case d[0] == descriptorProgress && len(d) == 8 && additional(binary.BigEndian.Uint16(d[3:])) == senseSanitizing:
			s = sense{Key: d[2] & 0xf, additional: senseSanitizing, Progress: int(binary.BigEndian.Uint16(d[6:]))}
		}
	}
	return s, nil
}
