package sysfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// ReadRequest is the limit of a PCI Express function's read requests, in its register Device Control (config; PCI Express Base Specification, 7.5.3.4).
type ReadRequest struct {
	// Bytes is the limit.
	Bytes int
	// At is where the upper half of the register is, and control what it has. The kernel changes the lower half while it runs.
	At      int64
	control byte
}

// ReadRequestSizes are the limits that the register can have, in bytes.
var ReadRequestSizes = []int{128, 256, 512, 1024, 2048, 4096}

// With is the upper half of the register with another limit. The bit that resets the function is never set.
func (r ReadRequest) With(size int) (control byte, err error) {
	i := slices.Index(ReadRequestSizes, size)
	if i < 0 {
		return 0, fmt.Errorf("limit read requests to %d bytes: the register takes %v", size, ReadRequestSizes)
	}
	const kept = 0x0f
	return r.control&kept | byte(i)<<4, nil
}

// headerSize is the part of a configuration space that holds the capabilities of PCI.
const headerSize = 256

// MaxReadRequest reads the limit of a function; nil for one that is none of PCI Express, and where the caller, not being root, sees only the
// first 64 bytes of its configuration space.
func MaxReadRequest(fsys fs.FS, address inventory.PCIAddress) (*ReadRequest, error) {
	name := path.Join(pciDevices, address.String(), "config")
	f, err := fsys.Open(name)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, named("read", name, err)
	}
	defer f.Close()
	config := make([]byte, headerSize)
	n, err := io.ReadFull(f, config)
	switch {
	case absent(err):
		return nil, nil
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
		return nil, named("read", name, err)
	}
	if n > 1 && config[0] == 0xff && config[1] == 0xff { // the number of no vendor
		return nil, fmt.Errorf("read %s: the function does not answer", name)
	}
	return maxReadRequest(config[:n]), nil
}

// maxReadRequest walks the capabilities (PCI Local Bus Specification 3.0, 6.7).
func maxReadRequest(config []byte) *ReadRequest {
	const status, hasCapabilities, pointer, express, deviceControl = 0x06, 1 << 4, 0x34, 0x10, 9
	if len(config) <= pointer || config[status]&hasCapabilities == 0 {
		return nil
	}
	const first, most = 0x40, 48
	for at, steps := int(config[pointer]&^3), 0; at >= first && at+deviceControl < len(config) && steps < most; steps++ {
		if config[at] == express {
			control := config[at+deviceControl]
			size := int(control >> 4 & 7)
			if size >= len(ReadRequestSizes) {
				return nil
			}
			return &ReadRequest{Bytes: ReadRequestSizes[size], At: int64(at + deviceControl), control: control}
		}
		at = int(config[at+1] &^ 3)
	}
	return nil
}
