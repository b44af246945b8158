package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// VirtualFunctions is how many virtual functions a physical one has now (sriov_numvfs): 0 for one that cannot have any.
func VirtualFunctions(fsys fs.FS, address inventory.PCIAddress) (int, error) {
	a := attributes{fsys: fsys, dir: path.Join(pciDevices, address.String())}
	n := a.number("sriov_numvfs")
	if n == nil || a.err != nil {
		return 0, a.err
	}
	return *n, nil
}

// SlotFunctions are all physical functions in the slot of a function, of whatever class, in order of address.
func SlotFunctions(fsys fs.FS, address inventory.PCIAddress) ([]PCIFunction, error) {
	names, err := list(fsys, pciDevices)
	if err != nil {
		return nil, err
	}
	var functions []PCIFunction
	for _, name := range names {
		if !strings.HasPrefix(name, address.Slot()+".") {
			continue
		}
		dir, err := follow(fsys, path.Join(pciDevices, name))
		if err != nil {
			return nil, err
		}
		f, err := functionAt(fsys, dir)
		switch {
		case f == nil && dir != "":
			return nil, errors.Join(fmt.Errorf("read function %s", name), err)
		case f == nil, f.Physical != nil:
			continue
		}
		f.Err = err
		functions = append(functions, *f)
	}
	return functions, nil
}
