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
