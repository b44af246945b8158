package devlink

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/mdlayher/netlink"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Info is the kernel's description of a device. Its three groups are separate: a version that is stored and not running
// waits for its activation.
type Info struct {
	// Driver is the kernel driver.
	Driver string
	// Serial is the serial number of the chip, BoardSerial that of the board; empty when the kernel reports none.
	Serial, BoardSerial string
	// Fixed are the versions that identify the hardware design, by name.
	Fixed map[string]string
	// Running and Stored are the versions of its firmware, by name.
	Running, Stored map[string]string
}

func parseInfo(data []byte, h Handle) (Info, error) {
	info := Info{Fixed: map[string]string{}, Running: map[string]string{}, Stored: map[string]string{}}
	ad, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return Info{}, fmt.Errorf("parse info of %s: %w", h, err)
	}
	var of Handle
	for ad.Next() {
		switch ad.Type() {
		case attrBusName:
			of.Bus = ad.String()
		case attrDevName:
			of.Device = ad.String()
		case attrInfoDriverName:
			info.Driver = ad.String()
		case attrInfoSerialNumber:
			info.Serial = strings.TrimSpace(ad.String())
		case attrInfoBoardSerialNumber:
			info.BoardSerial = strings.TrimSpace(ad.String())
		case attrInfoVersionFixed:
			ad.Nested(versionInto(info.Fixed))
		case attrInfoVersionRunning:
			ad.Nested(versionInto(info.Running))
		case attrInfoVersionStored:
			ad.Nested(versionInto(info.Stored))
		}
	}
	if err := ad.Err(); err != nil {
		return Info{}, fmt.Errorf("parse info of %s: %w", h, err)
	}
	if of != h {
		return Info{}, fmt.Errorf("parse info of %s: the answer is about %q", h, of)
	}
	return info, nil
}

// versionInto reads one version and its name.
func versionInto(group map[string]string) func(*netlink.AttributeDecoder) error {
	return func(ad *netlink.AttributeDecoder) error {
		var name, value string
		for ad.Next() {
			switch ad.Type() {
			case attrInfoVersionName:
				name = ad.String()
			case attrInfoVersionValue:
				value = ad.String()
			}
		}
		if name != "" && value != "" {
			group[name] = value
		}
		return nil
	}
}

// names lists the names of a group, for messages.
func names(group map[string]string) string {
	if len(group) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(group)), ", ")
}

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
