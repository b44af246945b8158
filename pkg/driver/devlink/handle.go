package devlink

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Handle is the kernel's name of a devlink instance: a device and the bus it is on.
type Handle struct{ Bus, Device string }

// ParseHandle parses BUS/DEVICE ("pci/0000:3b:00.0").
func ParseHandle(s string) (Handle, error) {
	bus, device, found := strings.Cut(s, "/")
	if !found || bus == "" || device == "" || strings.ContainsAny(device, "/\x00") {
		return Handle{}, fmt.Errorf("parse devlink handle %q: want BUS/DEVICE, such as pci/0000:3b:00.0", s)
	}
	return Handle{bus, device}, nil
}

// String is BUS/DEVICE.
func (h Handle) String() string { return h.Bus + "/" + h.Device }

// handleOf is the handle of an adapter: its first PCI function or, for one that is not on PCI, the device of its first
// network device. The kernel could report the latter too, but not while any device of the machine is being written.
func handleOf(root fs.FS, id inventory.Identity) (Handle, error) {
	if len(id.PCI) > 0 {
		return Handle{"pci", id.PCI[0].String()}, nil
	}
	interfaces, err := sysfs.NetInterfaces(root)
	if err != nil {
		return Handle{}, fmt.Errorf("find devlink handle of %s: %w", id.Node, err)
	}
	for _, n := range interfaces {
		if n.Name != id.Node {
			continue
		}
		if n.Err != nil || n.Device.Subsystem == "" {
			return Handle{}, fmt.Errorf("find devlink handle of %s: its bus cannot be read: %w", id.Node, n.Err)
		}
		return Handle{n.Device.Subsystem, path.Base(n.Device.Path)}, nil
	}
	return Handle{}, fmt.Errorf("find devlink handle of %s: no such network device", id.Node)
}
