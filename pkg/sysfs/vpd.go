package sysfs

import (
	"errors"
	"io"
	"io/fs"
	"path"

	"github.com/jaypipes/ghw/pkg/pci"
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
	parsed, err := pci.ParseVPD(data)
	if err != nil {
		return nil, named("parse", name, err)
	}
	return &VPD{
		Product: clean(parsed.Identifier), PartNumber: clean(parsed.ReadOnly["PN"]), SerialNumber: clean(parsed.ReadOnly["SN"]),
	}, nil
}

// maxVPD is the size of the address space of the product data: 15 bits.
const maxVPD = 32 << 10
