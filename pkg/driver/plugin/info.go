package plugin

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Match fits a device when each list that is not empty contains the device's value. Case is ignored.
type Match struct {
	Class   inventory.Class
	Support driver.Support
	// Vendors and Models are names; VendorIDs and DeviceIDs are PCI ids of four hexadecimal digits.
	Vendors, VendorIDs, DeviceIDs, Models []string
	// Transports restrict drives; see inventory.Identity.
	Transports []string
	// Kernel are names of kernel drivers.
	Kernel []string
}

// Fits reports whether the match fits the device. A device passed through to a virtual machine fits none.
func (m Match) Fits(id inventory.Identity) bool {
	return id.Class == m.Class && id.Kernel != "vfio-pci" &&
		has(m.Vendors, id.Vendor) && has(m.VendorIDs, id.VendorID) && has(m.DeviceIDs, id.DeviceID) && has(m.Models, id.Model) &&
		has(m.Transports, id.Transport) && has(m.Kernel, id.Kernel)
}

func has(list []string, value string) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(entry string) bool {
		return inventory.NormalizeID(entry) == inventory.NormalizeID(value)
	})
}

// maxMatches bounds the matches of a plugin.
const maxMatches = 64

// Info is a plugin's description of itself.
type Info struct {
	Name, Version string
	Matches       []Match
}

// Support is the best level of the matches that fit the device.
func (i Info) Support(id inventory.Identity) driver.Support {
	best := driver.SupportNone
	for _, m := range i.Matches {
		if m.Fits(id) {
			best = max(best, m.Support)
		}
	}
	return best
}

// Check returns all problems of a plugin's info.
func (i Info) Check() error {
	errs := []error{CheckName(i.Name)}
	if !versionForm.MatchString(i.Version) {
		errs = append(errs, fmt.Errorf("plugin version %q: want printable characters without blanks, at most 64", i.Version))
	}
	if len(i.Matches) == 0 || len(i.Matches) > maxMatches {
		errs = append(errs, fmt.Errorf("the plugin has %d matches, want 1 to %d", len(i.Matches), maxMatches))
	}
	for n, m := range i.Matches {
		var wrong []error
		for field, list := range map[string][]string{
			"vendors": m.Vendors, "vendor_ids": m.VendorIDs, "device_ids": m.DeviceIDs, "models": m.Models, "transports": m.Transports,
			"kernel_drivers": m.Kernel,
		} {
			wrong = append(wrong, checkList(field, list))
		}
		if !slices.Contains(inventory.Classes(), m.Class) {
			wrong = append(wrong, fmt.Errorf("unknown class %q", m.Class))
		}
		if m.Support < driver.SupportGeneric || m.Support > driver.SupportVendor {
			wrong = append(wrong, fmt.Errorf("unknown level of support %d", m.Support))
		}
		if err := errors.Join(wrong...); err != nil {
			errs = append(errs, fmt.Errorf("match %d: %w", n+1, err))
		}
	}
	return errors.Join(errs...)
}
