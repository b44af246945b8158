package match

import (
	"slices"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Device holds the facts about one device that rules are matched against. The strings are as the device reports them;
// comparisons normalise them.
type Device struct {
	Class v1alpha1.DeviceClass
	// Vendor is a name; VendorID and DeviceID are PCI ids as four hexadecimal digits.
	Vendor, VendorID, DeviceID, Model, BoardID, SerialNumber string
	// PCIAddresses of all functions of the device, as domain:bus:device.function.
	PCIAddresses []string

	spelled *spelling
}

// spelling is how selectors compare the facts about a device. The index spells them once, since every rule and image asks for them.
type spelling struct {
	vendors, models, boards, serials, buses []string
	// model is the key of the model, by which images are quarantined.
	model string
}

func (d Device) spelling() *spelling {
	if d.spelled != nil {
		return d.spelled
	}
	return &spelling{
		vendors: normalizedIDs(text.Slug(d.VendorID), text.Slug(d.Vendor)), models: normalizedIDs(d.DeviceID, d.Model),
		boards: normalizedIDs(d.BoardID), serials: normalizedIDs(d.SerialNumber), buses: normalizedIDs(d.PCIAddresses...),
		model: v1alpha1.ModelKey(d.VendorID, d.DeviceID, d.Vendor, d.Model),
	}
}

func normalizedIDs(values ...string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = inventory.NormalizeID(v)
	}
	return out
}

// DeviceOf takes the facts from the status of a NodeDevice.
func DeviceOf(d *v1alpha1.NodeDevice) Device {
	s := &d.Status
	out := Device{Class: s.Class, Vendor: s.Vendor, Model: s.Model, BoardID: s.BoardID, SerialNumber: s.SerialNumber}
	out.VendorID, out.DeviceID = s.PCIIDs()
	if s.PCIAddress != "" {
		out.PCIAddresses = append(out.PCIAddresses, s.PCIAddress)
	}
	for _, p := range s.Ports {
		if p.PCIAddress != "" && !slices.Contains(out.PCIAddresses, p.PCIAddress) {
			out.PCIAddresses = append(out.PCIAddresses, p.PCIAddress)
		}
	}
	return out
}

// DeviceFrom takes the facts from a device that was inspected on this machine, for use without a cluster.
func DeviceFrom(id inventory.Identity) Device {
	out := Device{
		Class: v1alpha1.DeviceClass(id.Class), Vendor: id.Vendor, VendorID: id.VendorID, DeviceID: id.DeviceID,
		Model: id.Model, BoardID: id.BoardID, SerialNumber: id.SerialNumber,
	}
	for _, a := range id.PCI {
		out.PCIAddresses = append(out.PCIAddresses, a.String())
	}
	return out
}

func (d Device) equal(o Device) bool {
	return d.Class == o.Class && d.Vendor == o.Vendor && d.VendorID == o.VendorID && d.DeviceID == o.DeviceID &&
		d.Model == o.Model && d.BoardID == o.BoardID && d.SerialNumber == o.SerialNumber &&
		slices.Equal(d.PCIAddresses, o.PCIAddresses)
}
