package health

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Baseline is what a host had before a job: the yardstick for its health afterwards.
type Baseline struct {
	// Devices that were there and could be read, in order of unique id.
	Devices []Device `json:"devices"`
}

// Device is one device of the baseline.
type Device struct {
	Class    inventory.Class `json:"class"`
	UniqueID string          `json:"uniqueID"`
	Model    string          `json:"model,omitempty"`
	// LinksUp lists the ports whose link was up, each by the permanent address of the port, or by its PCI address
	// where it has none. Names of network devices may change over a reboot.
	LinksUp []string `json:"linksUp,omitempty"`
}

// Take makes the baseline of the devices of a scan. Devices on USB come and go with people, and with the management
// controller, whose virtual media a reboot takes away and whose network card may have another MAC after each boot: that
// they are missing is no illness.
func Take(devices []inventory.Device) Baseline {
	b := Baseline{Devices: []Device{}}
	for _, d := range devices {
		if d.Err != nil || d.UniqueID == "" || d.Transport == "usb" {
			continue
		}
		b.Devices = append(b.Devices, Device{Class: d.Class, UniqueID: d.UniqueID, Model: d.Model, LinksUp: linksUp(d)})
	}
	slices.SortFunc(b.Devices, func(x, y Device) int { return strings.Compare(x.UniqueID, y.UniqueID) })
	return b
}

// Compare lists what is worse now than in the baseline, in order of the baseline; nil when nothing is.
func (b Baseline) Compare(now []inventory.Device) []Complaint {
	byID := map[string]inventory.Device{}
	for _, d := range now {
		byID[d.UniqueID] = d
	}
	var worse []Complaint
	complain := func(was Device, format string, args ...any) {
		worse = append(worse, Complaint{UniqueID: was.UniqueID, Message: fmt.Sprintf(format, args...)})
	}
	for _, was := range b.Devices {
		d, ok := byID[was.UniqueID]
		switch {
		case !ok:
			complain(was, "%s is gone", was.name())
			continue
		case d.Err != nil:
			complain(was, "%s cannot be read any more: %v", was.name(), d.Err)
			continue
		}
		up := linksUp(d)
		for _, link := range was.LinksUp {
			if !slices.Contains(up, link) {
				complain(was, "link %s of %s is not up any more", link, was.name())
			}
		}
	}
	return worse
}

func (d Device) name() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", d.Class, d.Model, d.UniqueID))
}

func linksUp(d inventory.Device) []string {
	var up []string
	for _, p := range d.Ports {
		if p.State != inventory.LinkUp {
			continue
		}
		key := strings.ToLower(p.MAC)
		if key == "" {
			key = p.PCI.String()
		}
		up = append(up, key)
	}
	return up
}
