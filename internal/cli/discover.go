package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Hardware is what was found on this machine, for printing.
type Hardware struct {
	Machine *Machine `json:"machine,omitempty"`
	BootID  string   `json:"bootID,omitempty"`
	Devices []Device `json:"devices"`
	// Problems says which classes of devices could not be listed.
	Problems []string `json:"problems,omitempty"`
}

// Machine is what the DMI tables say.
type Machine struct {
	Manufacturer string `json:"manufacturer,omitempty"`
	Model        string `json:"model,omitempty"`
	SerialNumber string `json:"serialNumber,omitempty"`
}

// Device is one device for printing.
type Device struct {
	Class        string `json:"class"`
	UniqueID     string `json:"uniqueID,omitempty"`
	Vendor       string `json:"vendor,omitempty"`
	VendorID     string `json:"vendorID,omitempty"`
	Model        string `json:"model,omitempty"`
	DeviceID     string `json:"deviceID,omitempty"`
	BoardID      string `json:"boardID,omitempty"`
	SerialNumber string `json:"serialNumber,omitempty"`
	PCIAddress   string `json:"pciAddress,omitempty"`
	// Names are what the kernel calls the device: its network devices, or the drive.
	Names      []string `json:"names,omitempty"`
	Running    string   `json:"running,omitempty"`
	Stored     string   `json:"stored,omitempty"`
	Activation string   `json:"activation,omitempty"`
	Driver     string   `json:"driver,omitempty"`
	// Problem says why the device cannot be read or updated.
	Problem string `json:"problem,omitempty"`
}

// ErrNothingListed says that no class of devices could be enumerated.
var ErrNothingListed = errors.New("no class of devices could be listed")

// Discover describes what a scan found, in order of class and address. The error is ErrNothingListed when no
// class could be enumerated, such as for lack of access.
func Discover(found host.Inventory) (Hardware, error) {
	h := Hardware{BootID: found.BootID, Devices: []Device{}}
	if m := found.Machine; m != nil {
		h.Machine = &Machine{m.Manufacturer, m.Model, m.SerialNumber}
	}
	devices := slices.Clone(found.Devices)
	slices.SortStableFunc(devices, byPlace)
	for _, d := range devices {
		h.Devices = append(h.Devices, describe(d))
	}
	for _, class := range slices.Sorted(maps.Keys(found.Incomplete)) {
		h.Problems = append(h.Problems, fmt.Sprintf("%s: %v", class, found.Incomplete[class]))
	}
	if len(h.Devices) == 0 && len(found.Incomplete) == len(inventory.Classes()) {
		return h, fmt.Errorf("%w: %s", ErrNothingListed, strings.Join(h.Problems, "; "))
	}
	return h, nil
}

func byPlace(a, b inventory.Device) int {
	classes := inventory.Classes()
	if c := slices.Index(classes, a.Class) - slices.Index(classes, b.Class); c != 0 {
		return c
	}
	return strings.Compare(place(a), place(b))
}

// place is where a device is: its PCI address, or the kernel's name for it.
func place(d inventory.Device) string {
	if len(d.PCI) > 0 {
		return d.PCI[0].String()
	}
	return "~" + d.Node // after all that is on the bus
}

func describe(d inventory.Device) Device {
	out := Device{
		Class: string(d.Class), UniqueID: d.UniqueID, Vendor: d.Vendor, VendorID: d.VendorID, Model: d.Model, DeviceID: d.DeviceID,
		BoardID: d.BoardID, SerialNumber: d.SerialNumber, Driver: d.Driver, Names: names(d), Problem: reason(d),
	}
	if len(d.PCI) > 0 {
		out.PCIAddress = d.PCI[0].String()
	}
	if f := d.Firmware; f != nil {
		out.Running, out.Stored = string(f.Running), string(f.Stored)
		if f.ReadOnly == "" && d.Driver != "" {
			out.Activation = f.Activation.String()
		}
	}
	return out
}

func names(d inventory.Device) []string {
	var out []string
	for _, p := range d.Ports {
		if p.NetDevice != "" {
			out = append(out, p.NetDevice)
		}
	}
	if len(out) == 0 && d.Node != "" {
		out = append(out, d.Node)
	}
	return out
}

// reason says why a device cannot be read or updated; empty when it can.
func reason(d inventory.Device) string {
	switch facts := plan.FactsOf(d); {
	case facts.Unreadable != "":
		return facts.Unreadable
	case facts.Driver == "":
		return "no driver knows it; listed from sysfs alone"
	case facts.ReadOnly != "":
		return facts.ReadOnly
	}
	return ""
}

func (h Hardware) table(w io.Writer) error {
	if m := h.Machine; m != nil {
		fmt.Fprintf(w, "Machine: %s\n\n", strings.Join(strings.Fields(m.Manufacturer+" "+m.Model+" "+m.SerialNumber), " "))
	}
	var rows [][]string
	for _, d := range h.Devices {
		rows = append(rows, []string{
			d.Class, strings.Join(d.Names, ","), d.Vendor, cmp.Or(d.Model, d.DeviceID), d.BoardID, d.SerialNumber, d.PCIAddress,
			d.Running, d.Stored, d.Activation, d.Driver, d.Problem,
		})
	}
	header := []string{"CLASS", "NAME", "VENDOR", "MODEL", "BOARD", "SERIAL", "PCI", "RUNNING", "STORED", "ACTIVATION", "DRIVER", "PROBLEM"}
	if err := columns(w, header, rows); err != nil {
		return err
	}
	for _, p := range h.Problems {
		fmt.Fprintf(w, "\nNot listed: %s\n", p)
	}
	return nil
}
