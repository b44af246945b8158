package catalog

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// component is what makes devices of one kind.
type component struct {
	class        v1alpha1.DeviceClass
	manufacturer string
	name         string
	pciID        string
	boardID      string
}

// kind is a component with its devices.
type kind struct {
	component
	// format is what the driver of every device declares.
	format inventory.VersionFormat
	// running counts the devices for each version; "" stands for those that could not be read.
	running map[string]int32
	devices int32
	// names of the devices that run each version, the first maxNames by name.
	names map[string][]string
}

// classes in the order in which they are listed.
var classes = []v1alpha1.DeviceClass{v1alpha1.ClassBIOS, v1alpha1.ClassNIC, v1alpha1.ClassStorageController, v1alpha1.ClassDisk}

// maxNames bounds the devices that are named for each version.
const maxNames = 5

// tally groups devices by what an image is for. It keeps a few names of the devices, of which a model may have 100,000.
type tally map[component]*kind

// add counts devices. One without a class was never read and is of no kind.
func (t tally) add(devices []v1alpha1.NodeDevice) {
	for i := range devices {
		s := &devices[i].Status
		if s.Class == "" {
			continue
		}
		c := component{class: s.Class, manufacturer: s.Vendor, name: s.Model, boardID: s.BoardID}
		if s.VendorID != "" && s.DeviceID != "" {
			c.pciID = strings.ToLower(s.VendorID + ":" + s.DeviceID)
		}
		k := t[c]
		if k == nil {
			k = &kind{component: c, format: inventory.FormatDotted, running: map[string]int32{}, names: map[string][]string{}}
			t[c] = k
		}
		running := ""
		if s.Firmware != nil {
			running = s.Firmware.Running
		}
		if running != "" && s.Firmware.VersionFormat != v1alpha1.VersionFormatDotted {
			k.format = inventory.FormatPlain
		}
		k.running[running]++
		k.devices++
		k.note(running, devices[i].Name)
	}
}

// note keeps the name of a device that runs a version, if it is among the first.
func (k *kind) note(version, device string) {
	names := k.names[version]
	if at, _ := slices.BinarySearch(names, device); at < maxNames {
		names = slices.Insert(names, at, device)
		k.names[version] = names[:min(len(names), maxNames)]
	}
}

// kinds are those of the devices that were added, in the order in which they are listed.
func (t tally) kinds() []kind {
	var out []kind
	for _, k := range t {
		out = append(out, *k)
	}
	slices.SortFunc(out, func(a, b kind) int {
		return cmp.Or(cmp.Compare(slices.Index(classes, a.class), slices.Index(classes, b.class)), cmp.Compare(a.pciID, b.pciID),
			cmp.Compare(a.manufacturer, b.manufacturer), cmp.Compare(a.name, b.name), cmp.Compare(a.boardID, b.boardID))
	})
	return out
}

// query asks for the versions of all kinds.
func query(machine v1alpha1.Machine, kinds []kind) catalog.Query {
	q := catalog.Query{Manufacturer: machine.Vendor, Model: machine.Model}
	for _, k := range kinds {
		c := catalog.Component{Class: string(k.class), Vendor: k.manufacturer, Model: k.name, BoardID: k.boardID, Format: k.format}
		c.VendorID, c.DeviceID, _ = strings.Cut(k.pciID, ":")
		q.Components = append(q.Components, c)
	}
	return q
}

// of is the component that a status lists.
func of(c *v1alpha1.CatalogComponent) component {
	return component{class: c.Class, manufacturer: c.Manufacturer, name: c.Name, pciID: c.PCIID, boardID: c.BoardID}
}
