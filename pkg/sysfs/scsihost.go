package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// SCSIHost is what the driver of a storage controller publishes about it (sys/class/scsi_host/<name>/). Which
// attributes there are is up to the driver: megaraid_sas has none of them.
type SCSIHost struct {
	// Name is the kernel's, such as "host0". It may change at any boot.
	Name string
	// Function is the real directory of the PCI function the host belongs to.
	Function string
	// SASAddress is the controller's own, 16 lower-case hexadecimal digits: host_sas_address of mpt3sas and pm80xx, or
	// else the lowest of the controller's own phys (sys/class/sas_phy, sas_address). Empty when it has none.
	SASAddress string
	// Serial is the board's: board_tracer of mpt3sas, serial_number of smartpqi and aacraid.
	Serial string
	// PartNumber is board_assembly of mpt3sas.
	PartNumber string
	// Err says what of the host could not be read.
	Err error
}

const scsiHostClass = "sys/class/scsi_host"

// SCSIHosts lists the hosts right below a PCI function, in order of name. Others are ports of a SATA controller, a USB
// bridge or a network protocol.
func SCSIHosts(fsys fs.FS) ([]SCSIHost, error) {
	names, err := list(fsys, scsiHostClass)
	if err != nil {
		return nil, err
	}
	var hosts []SCSIHost
	for _, name := range names {
		dir, err := follow(fsys, path.Join(scsiHostClass, name))
		if err != nil {
			return nil, err
		}
		host := path.Dir(path.Dir(dir)) // <function>/host0/scsi_host/host0
		if _, err := inventory.ParsePCIAddress(path.Base(path.Dir(host))); dir == "" || err != nil {
			continue
		}
		a := attributes{fsys: fsys, dir: dir}
		h := SCSIHost{
			Name: name, Function: path.Dir(host), SASAddress: a.sasAddress("host_sas_address"),
			Serial: a.text("board_tracer"), PartNumber: a.text("board_assembly"),
		}
		if h.Serial == "" {
			h.Serial = a.text("serial_number")
		}
		if h.SASAddress == "" {
			h.SASAddress = a.lowestPhy(host)
		}
		if h.Err = a.err; !a.gone() {
			hosts = append(hosts, h)
		}
	}
	return hosts, nil
}

// lowestPhy is the lowest address of the phys in a host's own directory (phy-0:1/sas_phy/phy-0:1); those of expanders
// are further below.
func (a *attributes) lowestPhy(host string) string {
	names, err := list(a.fsys, host)
	a.err = errors.Join(a.err, err)
	lowest := ""
	for _, name := range names {
		if !strings.HasPrefix(name, "phy-") {
			continue
		}
		phy := attributes{fsys: a.fsys, dir: path.Join(host, name, "sas_phy", name)}
		address := phy.sasAddress("sas_address")
		a.err = errors.Join(a.err, phy.err)
		if address != "" && (lowest == "" || address < lowest) {
			lowest = address
		}
	}
	return lowest
}

// sasAddress is an address like "0x500605b00dd9c7b0" without the prefix, empty when it is absent or zero.
func (a *attributes) sasAddress(name string) string {
	text := a.text(name)
	if text == "" {
		return ""
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	switch {
	case err != nil:
		a.err = errors.Join(a.err, fmt.Errorf("read %s: %q is not a SAS address", path.Join(a.dir, name), text))
		return ""
	case n == 0:
		return ""
	}
	return fmt.Sprintf("%016x", n)
}
