package sysfs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// SRIOV is what the kernel says of the virtual functions of a physical one (sys/bus/pci/devices/<address>/), as
// Documentation/PCI/pci-iov-howto.rst and Documentation/ABI/testing/sysfs-bus-pci describe it.
type SRIOV struct {
	// NumVFs is how many it has (sriov_numvfs). TotalVFs is how many it can have: what the device's capability says, or less where
	// its kernel driver does (sriov_totalvfs).
	NumVFs, TotalVFs int
	// Autoprobe is 1 if the kernel binds drivers to virtual functions that come into being, and 0 if it leaves them alone
	// (sriov_drivers_autoprobe); nil where the kernel has no such file.
	Autoprobe *int
	// Driver is bound to the physical function; empty when none is (link driver).
	Driver string
}

// ReadSRIOV reads the state of a function; nil for one that cannot have virtual functions, and an error for one that is not there. While the kernel changes their number, which
// takes minutes on some devices and forever on a stuck one, it lets nobody read it (sriov_numvfs_show takes the lock of the device):
// the call does not return before, and cannot be interrupted.
func ReadSRIOV(fsys fs.FS, address inventory.PCIAddress) (*SRIOV, error) {
	a := attributes{fsys: fsys, dir: path.Join(pciDevices, address.String())}
	total := a.number("sriov_totalvfs")
	if total == nil && a.err == nil && a.gone() {
		return nil, fmt.Errorf("read %s: %w", a.dir, fs.ErrNotExist)
	}
	if total == nil {
		return nil, a.err
	}
	n, autoprobe := a.number("sriov_numvfs"), a.number("sriov_drivers_autoprobe")
	driver := a.base("driver")
	switch {
	case a.err != nil:
		return nil, a.err
	case n == nil:
		return nil, fmt.Errorf("read %s/sriov_numvfs: no such file, though there is a sriov_totalvfs", a.dir)
	}
	return &SRIOV{NumVFs: *n, TotalVFs: *total, Autoprobe: autoprobe, Driver: driver}, nil
}

// VirtualFunction is one that a physical function has (link virtfn<n>).
type VirtualFunction struct {
	Address inventory.PCIAddress
	// Driver is bound to it; empty when none is (link driver).
	Driver string
	// Group is its IOMMU group; empty without one (link iommu_group).
	Group string
	// VFIO are its devices below /dev/vfio/devices (vfio-dev/), UIO those in /dev (uio/): through them, and through /dev/vfio/<Group>,
	// programs have it.
	VFIO, UIO []string
	// Interfaces are its network interfaces, as far as they are in the network namespace for which sysfs is mounted (net/).
	Interfaces []string
}

const virtualPrefix = "virtfn"

// VirtualFunctionsOf lists the virtual functions of a physical one, in order of their numbers.
func VirtualFunctionsOf(fsys fs.FS, address inventory.PCIAddress) ([]VirtualFunction, error) {
	dir, err := follow(fsys, path.Join(pciDevices, address.String()))
	if err != nil || dir == "" {
		return nil, err
	}
	entries, err := list(fsys, dir)
	if err != nil {
		return nil, err
	}
	numbers := map[string]int{}
	for _, e := range entries {
		if number, ok := strings.CutPrefix(e, virtualPrefix); ok {
			if n, err := strconv.Atoi(number); err == nil {
				numbers[e] = n
			}
		}
	}
	entries = slices.DeleteFunc(entries, func(e string) bool { _, is := numbers[e]; return !is })
	slices.SortFunc(entries, func(a, b string) int { return cmp.Compare(numbers[a], numbers[b]) })
	var out []VirtualFunction
	for _, e := range entries {
		target, err := follow(fsys, path.Join(dir, e))
		if err != nil {
			return nil, err
		}
		if target == "" {
			continue // gone meanwhile
		}
		vf, err := virtualFunctionAt(fsys, target)
		if err != nil {
			return nil, err
		}
		out = append(out, vf)
	}
	return out, nil
}

func virtualFunctionAt(fsys fs.FS, dir string) (VirtualFunction, error) {
	address, err := inventory.ParsePCIAddress(path.Base(dir))
	if err != nil {
		return VirtualFunction{}, fmt.Errorf("read virtual function %s: %w", dir, err)
	}
	a := attributes{fsys: fsys, dir: dir}
	vf := VirtualFunction{Address: address, Driver: a.base("driver"), Group: a.base("iommu_group")}
	for of, names := range map[string]*[]string{"vfio-dev": &vf.VFIO, "uio": &vf.UIO, "net": &vf.Interfaces} {
		*names, err = list(fsys, path.Join(dir, of))
		a.err = errors.Join(a.err, err)
	}
	return vf, a.err
}

// Uppers are the interfaces that are built on an interface, such as bonds and bridges, in order of name (links upper_<name>).
func Uppers(fsys fs.FS, name string) ([]string, error) {
	entries, err := list(fsys, path.Join(netClass, name))
	var out []string
	for _, e := range entries {
		if upper, ok := strings.CutPrefix(e, "upper_"); ok {
			out = append(out, upper)
		}
	}
	return out, err
}

// VirtualFunctions is how many virtual functions a physical one has now (sriov_numvfs): 0 for one that cannot have any.
func VirtualFunctions(fsys fs.FS, address inventory.PCIAddress) (int, error) {
	a := attributes{fsys: fsys, dir: path.Join(pciDevices, address.String())}
	n := a.number("sriov_numvfs")
	if n == nil || a.err != nil {
		return 0, a.err
	}
	return *n, nil
}

// VirtualFunctionsInUse says which of the functions has virtual functions, or cannot be asked; empty when none of them has any.
func VirtualFunctionsInUse(fsys fs.FS, functions []inventory.PCIAddress) string {
	for _, f := range functions {
		switch n, err := VirtualFunctions(fsys, f); {
		case err != nil:
			return fmt.Sprintf("it is not known whether %s has virtual functions: %v", f, err)
		case n > 0:
			return fmt.Sprintf("InUse: %s has %d virtual functions, which a reset would remove", f, n)
		}
	}
	return ""
}
