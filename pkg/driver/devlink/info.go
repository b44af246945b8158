package devlink

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

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

// adapters describes the adapters of one kernel driver. The names are those of Documentation/networking/devlink/*.rst
// of the kernel.
type adapters struct {
	// devices limits them to some PCI device ids; nil for all adapters of the kernel driver.
	devices []string
	// version names the version that changes with every image.
	version string
	// board names the fixed version that says which images fit; empty when the kernel reports none.
	board string
	// unread are versions that the kernel driver reports when it could not ask the card.
	unread []string
	// unsupportedIsImage: the kernel driver can flash every adapter it has, and answers EOPNOTSUPP to an image for another one.
	unsupportedIsImage bool
	format             inventory.VersionFormat
	// activation is DriverReload where the kernel driver has the reload action fw_activate.
	activation inventory.Activation
	// container is the format of image files the kernel driver accepts; empty when the format has no recognisable mark.
	container container
}

type container struct {
	name string
	// mark is the beginning of every file.
	mark []byte
}

func (c container) matches(head []byte) bool { return bytes.HasPrefix(head, c.mark) }

var (
	mfa2 = container{"MFA2 (.mfa2)", []byte("MLNX.MFA2.XZ.00!")}
	// pldm is DMTF DSP0267, header revision 1.
	pldm = container{"PLDM firmware update package", []byte{
		0xf0, 0x18, 0x87, 0x8c, 0xcb, 0x7d, 0x49, 0x43, 0x98, 0x00, 0xa0, 0x2f, 0x05, 0x9a, 0xca, 0x02,
	}}
)

// adaptersOf looks the adapters up by their kernel driver.
//
//   - bnxt_en: fw is the version of the whole package. Its fw.psid is not a board id but the version of the parameter set, and
//     changes with the firmware.
//   - ice, ixgbe: an image holds firmware, option ROM and netlist. fw.bundle_id names the image; fw.mgmt is that of the
//     firmware alone, and equal in images that differ in the others. Of ixgbe only the E610 can be written.
//   - ionic: the kernel reports neither a board nor what is stored. Images are made for an ASIC.
//   - mlx5_core: older kernels do not have the generic name, fw.
//   - netdevsim: the kernel's simulated adapter. Its version never changes.
//   - nfp: fw.bundle_id stands for all components, as with ice.
func adaptersOf(id inventory.Identity) (adapters, bool) {
	a, known := map[string]adapters{
		"bnxt_en": {
			version: "fw", board: "board.id", format: inventory.FormatDotted, activation: inventory.ActivateDriverReload,
			unsupportedIsImage: true,
		},
		"ice": {
			version: "fw.bundle_id", board: "board.id", activation: inventory.ActivateDriverReload, container: pldm,
		},
		"ionic": {version: "fw", board: "asic.id", activation: inventory.ActivateReboot},
		"ixgbe": {
			devices: []string{"57ae", "57af", "57b0", "57b1", "57b2"},
			version: "fw.bundle_id", board: "board.id", activation: inventory.ActivateDriverReload, container: pldm,
		},
		"mlx5_core": {
			version: "fw.version", board: "fw.psid", format: inventory.FormatDotted, activation: inventory.ActivateDriverReload,
			container: mfa2, unread: []string{"0.0.0000", "255.255.65535"},
		},
		"netdevsim": {version: "fw.mgmt", format: inventory.FormatDotted, activation: inventory.ActivateReboot},
		"nfp":       {version: "fw.bundle_id", board: "board.id", activation: inventory.ActivateReboot},
	}[id.Kernel]
	return a, known && (a.devices == nil || slices.Contains(a.devices, id.DeviceID))
}

// isBlueField reports whether an adapter has processors of its own, which may control it instead of this host.
func isBlueField(id inventory.Identity) bool {
	return id.Kernel == "mlx5_core" && strings.HasPrefix(id.DeviceID, "a2d")
}

// obstacle says why an adapter that its kernel driver could reset is not; empty when no reason is known.
func (d *Driver) obstacle(id inventory.Identity) string {
	if isBlueField(id) {
		return "a reset may bring a BlueField back in another mode"
	}
	for _, f := range id.PCI {
		if first := id.PCI[0]; f.Slot() != first.Slot() {
			return fmt.Sprintf("the card is in two slots, at %s and %s (Socket-Direct), and a reset might reach one of them alone", first, f)
		}
	}
	if d.root == nil {
		return ""
	}
	return sysfs.VirtualFunctionsInUse(d.root, id.PCI)
}

// modeRefusal says why a BlueField is not updated from this host; empty for one that may be, and for other adapters.
func (d *Driver) modeRefusal(id inventory.Identity, h Handle) string {
	if !isBlueField(id) {
		return ""
	}
	switch controls, err := d.dial.controlsSwitch(h); {
	case err != nil:
		return fmt.Sprintf("the adapter is a BlueField and its mode cannot be read: %v; in DPU mode it must not be updated from here", err)
	case !controls:
		return "the adapter is a BlueField in DPU mode: its own processors control it; update it from there, or change it to NIC mode"
	}
	return ""
}

// controlsSwitch reports whether this host controls the switch inside a device of mlx5_core, by whether the driver lets it read the
// mode of the switch (mlx5/core/eswitch_offloads.c: EPERM where another processor is the manager).
func (dial Dialer) controlsSwitch(h Handle) (bool, error) {
	c, err := dial.open()
	if err != nil {
		return false, err
	}
	defer c.Close()
	_, err = c.request(cmdEswitchGet, h, 0, func(*netlink.AttributeEncoder) {})
	switch {
	case errors.Is(err, syscall.EPERM):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("ask for the switch of %s: %w", h, err)
	}
	return true, nil
}

// Usable returns an error if the kernel does not offer devlink.
func (d *Driver) Usable() error {
	c, err := d.dial.open()
	if err != nil {
		return err
	}
	return c.Close()
}
