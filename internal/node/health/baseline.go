package health

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Baseline is the state of a host before a job, with which its health is compared afterwards.
type Baseline struct {
	// Devices that existed and could be read, in order of unique id.
	Devices []Device `json:"devices"`
	// Gateways answered before the job. Unwatched says why there is none, where the network could be
	// read.
	Gateways  []Gateway `json:"gateways,omitempty"`
	Unwatched string    `json:"unwatched,omitempty"`
	// Arrays of drives by name, and whether each survived the loss of a drive.
	Arrays []Array `json:"arrays,omitempty"`
	// Reached says that the API server answered in this job before anything was changed.
	Reached bool `json:"apiServerReached,omitempty"`
	// Before is what was wrong already with a host that an earlier job held.
	Before []step.Subject `json:"before,omitempty"`
	// Kernel is the release of the kernel that ran; empty where it is not known.
	Kernel string `json:"kernel,omitempty"`
	// Kexec says that this kernel was started by another one.
	Kexec bool `json:"kexec,omitempty"`
	// Boot is how long the boot of the host took that ran then.
	Boot step.BootTime `json:"boot,omitzero"`
	// Attended says that the next boot may wait for a person who opens a disk, so that its time says nothing.
	Attended bool `json:"attended,omitempty"`
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
	complain := func(was Device, about step.SubjectKind, name, message string) {
		worse = append(worse, Complaint{
			UniqueID: was.UniqueID, Class: was.Class, Message: message, Subject: step.Subject{Kind: about, Of: was.UniqueID, Name: name},
		})
	}
	for _, was := range b.Devices {
		d, ok := byID[was.UniqueID]
		switch {
		case !ok:
			complain(was, step.DeviceSubject, "", was.name()+" is gone")
			continue
		case d.Err != nil:
			complain(was, step.DeviceSubject, "", fmt.Sprintf("%s can no longer be read: %v", was.name(), d.Err))
			continue
		}
		up := linksUp(d)
		for _, link := range was.LinksUp {
			if !slices.Contains(up, link) {
				complain(was, step.LinkSubject, link, fmt.Sprintf("link %s of %s is no longer up", link, was.name()))
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

// Array is a redundant array of drives before a job.
type Array struct {
	Name string `json:"name"`
	// Whole says that it survived the loss of a drive.
	Whole bool `json:"whole,omitempty"`
	// Drive is the unique id of the drive of it that the job changes; empty for none.
	Drive string `json:"drive,omitempty"`
}

// takeArrays returns the arrays of the host for the baseline. Whether the drives of a job may be disturbed is asked for each of
// them, so that arrays which cannot be read are no error here.
func (c Checker) takeArrays(ctx context.Context) []Array {
	if c.Arrays == nil {
		return nil
	}
	found, err := c.Arrays.Arrays(ctx)
	if err != nil {
		return nil
	}
	var arrays []Array
	for _, a := range found {
		arrays = append(arrays, Array{Name: a.Name, Whole: a.Whole()})
	}
	return arrays
}

// broken lists the arrays that lost a drive since the baseline, and those that are gone. One that is being rebuilt is no
// complaint: that may take a day, and no drive of it is disturbed before it has ended. A reboot may change the names of arrays,
// so one with a new name stands for one that is missing.
func (c Checker) broken(ctx context.Context, b Baseline) ([]Complaint, error) {
	if c.Arrays == nil || len(b.Arrays) == 0 {
		return nil, nil
	}
	now, err := c.Arrays.Arrays(ctx)
	if err != nil {
		return nil, err
	}
	var worse []Complaint
	complain := func(was Array, message string) {
		worse = append(worse, Complaint{UniqueID: was.Drive, Class: inventory.Disk, Message: message, Subject: step.Subject{Kind: step.ArraySubject}})
	}
	missing := slices.Clone(b.Arrays)
	for _, a := range now {
		at := slices.IndexFunc(missing, func(m Array) bool { return m.Name == a.Name })
		was := Array{Whole: true}
		switch {
		case at >= 0:
			was = missing[at]
			missing = slices.Delete(missing, at, at+1)
		default: // it may be that of the job's drive
			if at := slices.IndexFunc(missing, func(m Array) bool { return m.Drive != "" }); at >= 0 {
				was.Drive = missing[at].Drive
			}
		}
		if was.Whole && a.Degraded && a.Rebuilds == "" {
			complain(was, fmt.Sprintf("array %s is degraded: it lost a drive", a.Name))
		}
	}
	if gone := len(b.Arrays) - len(now); gone > 0 {
		for _, m := range missing[len(missing)-gone:] {
			complain(m, fmt.Sprintf("array %s is gone", m.Name))
		}
	}
	return worse, nil
}

// Gateway is the next hop of a default route that answered before a job.
type Gateway struct {
	Address string `json:"address"`
	// Through lists the unique ids of the adapters that lead to it; several below a bond. Names of network devices may
	// change over a reboot.
	Through []string `json:"through"`
}

// Take returns the baseline of the host: the devices of a scan, and the gateways that answer. The network only explains
// later why the API server is missed, so that one which cannot be read is no error: the baseline then has no gateways.
func (c Checker) Take(ctx context.Context, devices []inventory.Device) Baseline {
	b := Take(devices)
	b.Arrays = c.takeArrays(ctx)
	if c.Network == nil {
		return b
	}
	found, err := c.Network.Neighbours(ctx)
	if err != nil {
		return b
	}
	b.Unwatched = "the node has no default gateway"
	for _, n := range found {
		through := adapters(n, devices)
		switch {
		case len(through) == 0:
			b.Unwatched = fmt.Sprintf("%s leads to no adapter of this node", strings.Join(n.Ports, ", "))
		case !n.Answers:
			b.Unwatched = n.Address + " did not answer before the job"
		default:
			b.Gateways = append(b.Gateways, Gateway{Address: n.Address, Through: through})
		}
	}
	if len(b.Gateways) > 0 {
		b.Unwatched = ""
	}
	return b
}

// silent lists the gateways of the baseline that no longer answer through the adapters that led to them, one complaint for
// each adapter.
func (c Checker) silent(ctx context.Context, b Baseline, devices []inventory.Device) []Complaint {
	if len(b.Gateways) == 0 || c.Network == nil {
		return nil
	}
	now, err := c.Network.Neighbours(ctx)
	if err != nil {
		return nil // what cannot be read is no complaint
	}
	var worse []Complaint
	for _, g := range b.Gateways {
		answers := func(n Neighbour) bool {
			return n.Answers && n.Address == g.Address && slices.ContainsFunc(adapters(n, devices), func(id string) bool {
				return slices.Contains(g.Through, id)
			})
		}
		if slices.ContainsFunc(now, answers) {
			continue
		}
		for _, id := range g.Through {
			worse = append(worse, Complaint{
				UniqueID: id, Class: inventory.NIC, Message: fmt.Sprintf("gateway %s no longer answers through NIC %s", g.Address, id),
				Subject: step.Subject{Kind: step.GatewaySubject, Of: id, Name: g.Address},
			})
		}
	}
	return worse
}

// adapters are the unique ids of the devices that the neighbour is reached through.
func adapters(n Neighbour, devices []inventory.Device) []string {
	var ids []string
	for _, d := range devices {
		leads := func(p inventory.Port) bool { return p.NetDevice != "" && slices.Contains(n.Ports, p.NetDevice) }
		if d.UniqueID != "" && d.Transport != "usb" && slices.ContainsFunc(d.Ports, leads) {
			ids = append(ids, d.UniqueID)
		}
	}
	return ids
}
