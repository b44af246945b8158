package admin

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// Identification is the part of the Identify Controller data that is about firmware (NVMe Base Specification 2.0,
// figure 275).
type Identification struct {
	VendorID uint16
	// Serial, Model and Revision are without padding.
	Serial, Model, Revision string
	// CMIC says whether the drive may have several ports or controllers, as the drive spells it.
	CMIC uint8
	// OACS are the optional admin commands, FRMW the properties of the firmware slots, as the drive spells them.
	OACS uint16
	FRMW uint8
	// MDTS bounds the data of one command to 2^MDTS pages; 0 sets no bound.
	MDTS uint8
	// FWUG is the granularity of a download in units of 4 KiB; 0 means not reported and 255 no restriction.
	FWUG uint8
	// MTFA is the longest time for which the drive stops working to activate an image without a reset; 0 where it does not
	// report it.
	MTFA time.Duration
}

// MTFAUnit is the unit of MTFA in the Identify Controller data.
const MTFAUnit = 100 * time.Millisecond

// Positions in the Identify Controller data.
const (
	atVID, atSN, atMN, atFR, atEndOfFR = 0, 4, 24, 64, 72
	atCMIC, atMDTS, atOACS, atFRMW     = 76, 77, 256, 260
	atMTFA, atFWUG                     = 270, 319
)

// ParseIdentify reads the Identify Controller data.
func ParseIdentify(b []byte) (Identification, error) {
	if len(b) < identifySize {
		return Identification{}, fmt.Errorf("parse identify controller: %d bytes instead of %d", len(b), identifySize)
	}
	revision, err := text(b[atFR:atEndOfFR])
	if err != nil {
		return Identification{}, fmt.Errorf("parse identify controller: firmware revision: %w", err)
	}
	return Identification{
		VendorID: binary.LittleEndian.Uint16(b[atVID:]),
		Serial:   lenientText(b[atSN:atMN]),
		Model:    lenientText(b[atMN:atFR]),
		Revision: revision,
		CMIC:     b[atCMIC],
		MDTS:     b[atMDTS],
		OACS:     binary.LittleEndian.Uint16(b[atOACS:]),
		FRMW:     b[atFRMW],
		FWUG:     b[atFWUG],
		MTFA:     time.Duration(binary.LittleEndian.Uint16(b[atMTFA:])) * MTFAUnit,
	}, nil
}

// text is ASCII without its padding. Anything else is an error: revisions are compared, so they must be exact.
func text(b []byte) (string, error) {
	s := strings.Trim(string(b), "\x00 ")
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return "", fmt.Errorf("%q is not ASCII", s)
		}
	}
	return s, nil
}

// lenientText replaces what is not ASCII by blanks: some drives have such bytes in their serial numbers.
func lenientText(b []byte) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, string(b)))
}
