package health

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Baseline is the state of a host before a job, with which its health is compared afterwards.
type Baseline struct {
	// Devices that existed and could be read, in order of unique id.
	Devices []Device `json:"devices"`
	// Gateways answered before the job.
	Gateways []Gateway `json:"gateways,omitempty"`
	// Arrays of drives by name, and whether each survived the loss of a drive.
	Arrays []Array `json:"arrays,omitempty"`
	// Reached says that the API server answered in this job before anything was changed.
	Reached bool `json:"apiServerReached,omitempty"`
}

// Device is one device of the baseline.
type Device struct {
	Class    inventory.Class `json:"class"`
	UniqueID string          `json:"uniqueID"`
	Model    string          `json:"model,omitempty"`
	// LinksUp lists the ports whose link was up, each by the permanent address of the port, or by its PCI address if it
	// has none. Names of network devices may change over a reboot.
	LinksUp []string `json:"linksUp,omitempty"`
}

// Take returns the baseline of the devices of a scan, without USB devices. People plug those in and out, and those of
// the management controller change on a reboot: virtual media disappear, and its network card may have another MAC
// after each boot.
func Take(devices []inventory.Device) Baseline {
	b := Baseline{Devices: []Device{}}
	for _, d := range devices {
		if d.Err != nil || d.UniqueID == "" || d.Transport == "usb" {
			continue
		}
		b.Devices = append(b.Devices, Device{Class: d.Class, UniqueID: d.UniqueID, Model: d.Model, LinksUp: linksUp(d)})
	}
	slices.SortFunc(b.Devices, byID)
	return b
}

func byID(x, y Device) int { return strings.Compare(x.UniqueID, y.UniqueID) }

// Has reports whether the device is in the baseline; it is not in a nil one.
func (b *Baseline) Has(uniqueID string) bool {
	return b != nil && slices.ContainsFunc(b.Devices, func(d Device) bool { return d.UniqueID == uniqueID })
}

// Expect adds what the devices of an earlier baseline were, nil for none, for those that a scan still lists.
func (b *Baseline) Expect(earlier *Baseline, now []inventory.Device) {
	if earlier == nil {
		return
	}
	for _, was := range earlier.Devices {
		if !slices.ContainsFunc(now, func(d inventory.Device) bool { return d.UniqueID == was.UniqueID }) {
			continue
		}
		b.Devices = slices.DeleteFunc(b.Devices, func(d Device) bool {
			if d.UniqueID == was.UniqueID {
				was.LinksUp = slices.Compact(slices.Sorted(slices.Values(slices.Concat(was.LinksUp, d.LinksUp))))
				return true
			}
			return false
		})
		b.Devices = append(b.Devices, was)
	}
	slices.SortFunc(b.Devices, byID)
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
			complain(was, "%s can no longer be read: %v", was.name(), d.Err)
			continue
		}
		up := linksUp(d)
		for _, link := range was.LinksUp {
			if !slices.Contains(up, link) {
				complain(was, "link %s of %s is no longer up", link, was.name())
				worse[len(worse)-1].Network = true
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
