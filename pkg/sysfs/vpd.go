package sysfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// VPD is the vital product data a card carries about itself (PCI Local Bus Specification 3.0, appendix I).
type VPD struct {
	// Product is the identifier string, such as "ConnectX-6 Dx EN adapter card".
	Product string
	// PartNumber is keyword PN, SerialNumber keyword SN.
	PartNumber, SerialNumber string
}

// ReadVPD reads the product data of a function (vpd). It is nil where the function has none or the caller, not being
// root, may not read it. The card answers a few bytes at a time, so this can take a second.
func ReadVPD(fsys fs.FS, f PCIFunction) (*VPD, error) {
	name := path.Join(f.Path, "vpd")
	file, err := fsys.Open(name)
	if absent(err) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, named("read", name, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxVPD))
	if absent(err) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, named("read", name, err)
	}
	v, err := parseVPD(data)
	if err != nil {
		return nil, named("parse", name, err)
	}
	return v, nil
}

// maxVPD is the size of the address space of the product data: 15 bits.
const maxVPD = 32 << 10

// Tags of large resource items.
const (
	vpdIdentifier = 0x82
	vpdReadOnly   = 0x90
	vpdLarge      = 0x80
	vpdEnd        = 0x78
)

// parseVPD walks the resource items: a large one is a tag and two bytes of length, a small one has its length in the
// low three bits of the tag.
func parseVPD(data []byte) (*VPD, error) {
	v := &VPD{}
	for len(data) > 0 {
		tag := data[0]
		head, size := 1, int(tag&7)
		if tag&vpdLarge != 0 {
			if len(data) < 3 {
				return nil, errors.New("it ends within the head of an item")
			}
			head, size = 3, int(data[1])|int(data[2])<<8
		}
		if tag == vpdEnd {
			return v, nil
		}
		if len(data) < head+size {
			return nil, fmt.Errorf("item %#x says it has %d bytes; %d are left", tag, size, len(data)-head)
		}
		body := data[head : head+size]
		data = data[head+size:]
		switch tag {
		case vpdIdentifier:
			v.Product = clean(string(body))
		case vpdReadOnly:
			if err := v.keywords(body); err != nil {
				return nil, err
			}
		}
	}
	return nil, errors.New("it has no end")
}

// keywords are two letters, one byte of length and a value each.
func (v *VPD) keywords(body []byte) error {
	for len(body) > 0 {
		if len(body) < 3 || len(body) < 3+int(body[2]) {
			return errors.New("a keyword is cut off")
		}
		value := body[3 : 3+int(body[2])]
		switch string(body[:2]) {
		case "PN":
			v.PartNumber = clean(string(value))
		case "SN":
			v.SerialNumber = clean(string(value))
		}
		body = body[3+len(value):]
	}
	return nil
}
