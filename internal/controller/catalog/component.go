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
	class   v1alpha1.DeviceClass
	vendor  string
	model   string
	pciID   string
	boardID string
}

// kind is a component with its devices.
type kind struct {
	component
	// format is what the driver of every device declares.
	format inventory.VersionFormat
	// running counts the devices for each version; "" stands for those that could not be read.
	running map[string]int32
}

// classes in the order in which they are listed.
var classes = []v1alpha1.DeviceClass{v1alpha1.ClassBIOS, v1alpha1.ClassNIC, v1alpha1.ClassStorageController, v1alpha1.ClassDisk}

// tally groups devices by what an image is for.
type tally map[component]*kind

// add counts devices. One without a class was never read and is of no kind.
func (t tally) add(devices []v1alpha1.NodeDevice) {
	for i := range devices {
		s := &devices[i].Status
		if s.Class == "" {
			continue
		}
		c := component{class: s.Class, vendor: s.Vendor, model: s.Model, boardID: s.BoardID, pciID: s.PCIID}
		k := t[c]
		if k == nil {
			k = &kind{component: c, format: inventory.FormatDotted, running: map[string]int32{}}
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
			cmp.Compare(a.vendor, b.vendor), cmp.Compare(a.model, b.model), cmp.Compare(a.boardID, b.boardID))
	})
	return out
}

// query asks for the versions of all kinds.
func query(machine v1alpha1.Machine, kinds []kind) catalog.Query {
	q := catalog.Query{Vendor: machine.Vendor, Model: machine.Model}
	for _, k := range kinds {
		c := catalog.Component{Class: string(k.class), Vendor: k.vendor, Model: k.model, BoardID: k.boardID, Format: k.format}
		c.VendorID, c.DeviceID, _ = strings.Cut(k.pciID, ":")
		q.Components = append(q.Components, c)
	}
	return q
}

// of is the component that a status lists.
func of(c *v1alpha1.CatalogComponent) component {
	return component{class: c.Class, vendor: c.Vendor, model: c.Model, pciID: c.PCIID, boardID: c.BoardID}
}
