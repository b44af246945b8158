package pci

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// uses says what uses the virtual functions of a port, which all go when their number changes; empty when nothing is known to. One that a program
// has through VFIO or UIO would block the change in the kernel until the program ends, and one in the network namespace of a container
// would just vanish from it. Movable says that all of that may go when the node is drained, as a program of the host and an interface that is built on one do not.
func uses(host fs.FS, address inventory.PCIAddress) (what string, movable bool, err error) {
	functions, err := sysfs.VirtualFunctionsOf(host, address)
	if err != nil {
		return "", false, err
	}
	files := map[string]sysfs.VirtualFunction{}
	var list, users []string
	for _, vf := range functions {
		for _, file := range deviceFiles(vf) {
			files[file] = vf
			list = append(list, file)
		}
	}
	holders := map[string]sysfs.Holder{}
	if len(list) > 0 {
		if holders, err = sysfs.Holders(host, list...); err != nil {
			return "", false, fmt.Errorf("look for programs that have virtual functions of %s: %w", address, err)
		}
	}
	movable = true
	for _, file := range list {
		if holder, is := holders[file]; is {
			users, movable = append(users, fmt.Sprintf("%s has %s, by %s", holder.Name, named(files[file]), file)), movable && holder.Pod
		}
	}
	for _, vf := range functions {
		user, elsewhere, err := interfaceUse(host, vf)
		if err != nil {
			return "", false, err
		}
		if user != "" {
			users, movable = append(users, user), movable && elsewhere
		}
	}
	const few = 3
	return text.Some(users, few), movable, nil
}

func named(vf sysfs.VirtualFunction) string {
	return fmt.Sprintf("%s (driver %s)", vf.Address, vf.Driver)
}

// deviceFiles are those through which a program can have a virtual function to itself.
func deviceFiles(vf sysfs.VirtualFunction) []string {
	var out []string
	for _, name := range vf.UIO {
		out = append(out, path.Join("/dev", name))
	}
	if !strings.Contains(vf.Driver, "vfio") {
		return out
	}
	if vf.Group != "" {
		out = append(out, path.Join("/dev/vfio", vf.Group), path.Join("/dev/vfio", "noiommu-"+vf.Group))
	}
	for _, name := range vf.VFIO {
		out = append(out, path.Join("/dev/vfio/devices", name))
	}
	return out
}

// interfaceUse says who has the network interface of a virtual function that a network driver has, and whether it is elsewhere than on the host.
func interfaceUse(host fs.FS, vf sysfs.VirtualFunction) (user string, elsewhere bool, err error) {
	if vf.Driver == "" || strings.Contains(vf.Driver, "vfio") || strings.Contains(vf.Driver, "uio") || vf.Driver == "pci-stub" {
		return "", false, nil
	}
	if len(vf.Interfaces) == 0 {
		return named(vf) + " has no network interface on the host: a container or a virtual machine has it", true, nil
	}
	for _, name := range vf.Interfaces {
		uppers, err := sysfs.Uppers(host, name)
		if err != nil {
			return "", false, err
		}
		if len(uppers) > 0 {
			return fmt.Sprintf("%s is built on %s of %s", uppers[0], name, named(vf)), false, nil
		}
	}
	return "", false, nil
}
