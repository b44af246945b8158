package devlink

import (
	"bytes"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

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
