package discovery

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/node/devicename"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool"
)

// facts is everything that one pass of the publisher decides from.
type facts struct {
	node string
	// nodeUID is empty while the Node is not there; nothing is created then.
	nodeUID  types.UID
	snapshot Snapshot
	records  records
	// devices are the NodeDevices of this node.
	devices []v1alpha1.NodeDevice
	// settings says that settings are read where they are desired.
	settings bool
	// steps are those a job on this node may run.
	steps []v1alpha1.EnabledStep
	// tools are the vendors' programs that the drivers of this node run.
	tools []vendortool.Finding
	// nodeFirmware is nil until the operator has made it.
	nodeFirmware *v1alpha1.NodeFirmware
}

func (f facts) retry() plan.Clearance { return desired.Retry(f.nodeFirmware) }

// changes is what a pass writes. It is empty at steady state.
type changes struct {
	create []v1alpha1.NodeDevice
	// update holds statuses that differ from what the API server has, by the name of the object.
	update map[string]v1alpha1.NodeDeviceStatus
	remove []v1alpha1.NodeDevice
	node   *v1alpha1.NodeFirmwareStatus
}

// card is one device of the snapshot with the name of its object.
type card struct {
	name   string
	device inventory.Device
}

// decide compares what was found with what the API server has.
func decide(f facts, now time.Time) changes {
	c := changes{update: map[string]v1alpha1.NodeDeviceStatus{}}
	existing := map[string]v1alpha1.NodeDevice{}
	for _, d := range f.devices {
		existing[d.Name] = d
	}
	cards, problems := name(f)
	statuses := map[string]v1alpha1.NodeDeviceStatus{}
	specs := map[string]v1alpha1.NodeDeviceSpec{}
	for _, card := range cards {
		obj, ok := existing[card.name]
		if !ok {
			if f.nodeUID == "" {
				continue
			}
			obj = newDevice(f, card.name)
			c.create = append(c.create, obj)
		}
		s := obj.Status
		if !f.waits(card.device, obj) {
			s = deviceStatus(card.device, obj, f, now)
		}
		statuses[card.name], specs[card.name] = s, obj.Spec
		if !equality.Semantic.DeepEqual(s, obj.Status) {
			c.update[card.name] = s
		}
	}
	for _, d := range f.devices {
		_, found := statuses[d.Name]
		switch class := inventory.Class(d.Status.Class); {
		case found || d.DeletionTimestamp != nil:
		case f.snapshot.enumerated(class) && !f.mayBePartOfUnread(d.Status):
			c.remove = append(c.remove, d)
		default: // whether it is there is not known: it keeps its facts
			statuses[d.Name], specs[d.Name] = d.Status, d.Spec
		}
	}
	if f.nodeFirmware != nil {
		c.node = nodeStatus(f, statuses, specs, problems, f.baseline(cards, statuses, specs, problems), now)
	}
	return c
}

func newDevice(f facts, name string) v1alpha1.NodeDevice {
	return v1alpha1.NodeDevice{
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: f.node, UID: f.nodeUID}},
		},
		Spec: v1alpha1.NodeDeviceSpec{NodeName: f.node},
	}
}

// name gives every device of the snapshot the name of its object, in order of name. The identity of a device that cannot be
// read, or not by its driver, may not be known; such a device keeps the object of the device that was last seen in its place.
// The problems are devices with the same identity and classes that could not be enumerated.
func name(f facts) (cards []card, problems []string) {
	taken := map[string]bool{}
	add := func(name string, d inventory.Device) {
		if taken[name] {
			problems = append(problems, fmt.Sprintf(
				"Two devices report the same unique id %q and only one of them is shown as %s; check the hardware.", d.UniqueID, name))
			return
		}
		taken[name] = true
		cards = append(cards, card{name, d})
	}
	var unread, unknown []inventory.Device
	for _, d := range f.snapshot.Devices {
		switch own := devicename.Of(f.node, d.Identity); {
		case d.Err != nil:
			unread = append(unread, d)
		case f.knows(own):
			add(own, d)
		default:
			unknown = append(unknown, d)
		}
	}
	for _, d := range unknown {
		if obj := lessKnown(f, d, taken); obj != nil {
			add(obj.Name, lesser(d, obj.Status.UniqueID))
			continue
		}
		add(devicename.Of(f.node, d.Identity), d)
	}
	for _, d := range unread {
		add(lastKnown(f, d, taken), d)
	}
	for _, class := range slices.Sorted(maps.Keys(f.snapshot.Incomplete)) {
		problems = append(problems, fmt.Sprintf("Devices of class %s could not be listed: %v.", class, f.snapshot.Incomplete[class]))
	}
	slices.SortFunc(cards, func(a, b card) int { return strings.Compare(a.name, b.name) })
	if len(cards) > maxDevices {
		problems = append(problems, fmt.Sprintf("%d devices were found and %d are shown; check why there are so many.", len(cards), maxDevices))
		cards = f.first(cards)
	}
	return cards, problems
}

// maxDevices bounds the devices that a node publishes. The operator looks at no more.
const maxDevices = 512

// first returns as many of the cards as are published, in order: those that are published already, and then the first ones.
func (f facts) first(cards []card) []card {
	published := make(map[string]bool, len(f.devices))
	for i := range f.devices {
		published[f.devices[i].Name] = true
	}
	left := maxDevices
	for _, c := range cards {
		if published[c.name] {
			left--
		}
	}
	out := make([]card, 0, maxDevices)
	for _, c := range cards {
		if !published[c.name] {
			if left <= 0 {
				continue
			}
			left--
		}
		out = append(out, c)
	}
	return out[:min(len(out), maxDevices)]
}

func (f facts) knows(name string) bool {
	return slices.ContainsFunc(f.devices, func(d v1alpha1.NodeDevice) bool { return d.Name == name })
}

// lessKnown is the object of a device that can be read and yet reports a weaker id than before, such as a card that was
// given to a virtual machine, or a drive without namespaces; nil for a device that is new. Since the two ids do not prove
// that it is the same device, the serial number must, and no fact may contradict it: another card in the same slot is another
// device.
func lessKnown(f facts, d inventory.Device, taken map[string]bool) *v1alpha1.NodeDevice {
	for i := range f.devices {
		obj := &f.devices[i]
		known := obj.Status
		sameBoard := known.BoardID == "" || d.BoardID == "" || known.BoardID == text.Clip(d.BoardID, 64)
		sameSerial := d.SerialNumber != "" && known.SerialNumber == text.Clip(d.SerialNumber, 128)
		if !taken[obj.Name] && inPlaceOf(d, known) && sameSerial && sameBoard && host.WeakerID(d.UniqueID, known.UniqueID) {
			return obj
		}
	}
	return nil
}

// lesser marks the device as unreadable, because a job could not find it by the id under which it is known.
func lesser(d inventory.Device, known string) inventory.Device {
	d.Err = fmt.Errorf("it reports only the id %s now, and by its serial number %s and its place it is %s; nothing is written to it "+
		"until it reports that id again: give it back to its kernel driver (now %q), or make a namespace on a drive that has none",
		d.UniqueID, d.SerialNumber, known, d.Kernel)
	d.UniqueID, d.Firmware, d.Driver = known, nil, ""
	return d
}

// lastKnown is the name of the object of a device that cannot be read.
func lastKnown(f facts, d inventory.Device, taken map[string]bool) string {
	own := devicename.Of(f.node, d.Identity)
	if f.knows(own) {
		return own
	}
	for _, obj := range f.devices {
		if !taken[obj.Name] && inPlaceOf(d, obj.Status) {
			return obj.Name
		}
	}
	return own
}

// inPlaceOf reports whether the device is of the known model and in its place.
func inPlaceOf(d inventory.Device, known v1alpha1.NodeDeviceStatus) bool {
	return known.Class == v1alpha1.DeviceClass(d.Class) && known.PCIID == pciID(d.VendorID, d.DeviceID) &&
		len(d.PCI) > 0 && known.PCIAddress == d.PCI[0].String()
}

// mayBePartOfUnread reports whether the place of a known device is one of a device that cannot be read now: two cards of one board
// look like one card in two slots until the first of them is read.
func (f facts) mayBePartOfUnread(known v1alpha1.NodeDeviceStatus) bool {
	return slices.ContainsFunc(f.snapshot.Devices, func(d inventory.Device) bool {
		return d.Err != nil && known.Class == v1alpha1.DeviceClass(d.Class) && len(d.PCI) > 0 &&
			slices.ContainsFunc(d.PCI[1:], func(a inventory.PCIAddress) bool { return a.String() == known.PCIAddress })
	})
}

// scanTimeRefresh is how old the reported time of the last scan may get while nothing else changes, where no person says how old a
// scan may be. Scans continue at their interval; reporting each of them would be the only write of an idle node. It is never
// reported more often than scanTimeLeast because of such a wish.
const (
	scanTimeRefresh = time.Hour
	scanTimeLeast   = time.Minute
)

// nodeStatus is the status of the NodeFirmware, or nil when it needs no change.
func nodeStatus(
	f facts, statuses map[string]v1alpha1.NodeDeviceStatus, specs map[string]v1alpha1.NodeDeviceSpec, problems []string, baseline string, now time.Time,
) *v1alpha1.NodeFirmwareStatus {
	old := f.nodeFirmware.Status
	out := *old.DeepCopy()
	out.ObservedGeneration = f.nodeFirmware.Generation
	out.Machine = machine(f.snapshot.Machine)
	out.BootID = text.Clip(f.snapshot.BootID, 64)
	out.Baseline, out.BIOSVersion = baseline, ""
	report := status.NodeFacts{Node: f.node, Problems: problems, Tools: f.tools, Held: f.records.held, Verdict: f.records.verdictFor(f.snapshot.BootID)}
	for _, name := range slices.Sorted(maps.Keys(statuses)) {
		s := statuses[name]
		configured := specs[name].Configuration != nil
		report.Devices = append(report.Devices, status.DeviceSummary{
			Name: name, Assigned: specs[name].Firmware != nil || configured, Configured: configured, Conditions: s.Conditions,
		})
		if s.Class == v1alpha1.ClassBIOS && out.BIOSVersion == "" && s.Firmware != nil {
			out.BIOSVersion = s.Firmware.Running
		}
	}
	if f.records.step != nil {
		report.Working = f.records.working()
	}
	out.CurrentStep, out.Requests, out.HeldBy = f.records.step.DeepCopy(), answered(f), ""
	if f.records.held != nil {
		out.HeldBy = f.records.held.Job
	}
	out.Steps = slices.Clone(f.steps[:min(len(f.steps), 64)])
	out.LastError = text.Clip(f.records.lastError, 1024)
	out.Conditions = status.Node(report, old.Conditions, f.nodeFirmware.Generation, now)
	out.LastScanTime = old.LastScanTime
	if changed := !equality.Semantic.DeepEqual(out, old); f.snapshot.complete() && scanTimeDue(f, old.LastScanTime, changed) {
		out.LastScanTime = &metav1.Time{Time: f.snapshot.Time.Truncate(time.Second)}
	}
	if equality.Semantic.DeepEqual(out, old) {
		return nil
	}
	return &out
}

// scanTimeDue reports whether the time of the last scan is to be written: when anything else is written, when the scan was
// requested, and otherwise once an hour, or as often as the person who set the scanThreshold wants the node to be scanned.
func scanTimeDue(f facts, reported *metav1.Time, changed bool) bool {
	s := f.snapshot
	refresh := min(scanTimeRefresh, max(f.nodeFirmware.Spec.ScanThreshold.Duration(scanTimeRefresh), scanTimeLeast))
	return reported == nil || changed || s.Requested || s.Time.Sub(reported.Time) >= refresh
}

// answered are the last requests that the node has answered; they stay when the request is removed. Those of a hold stay until it ends, so
// that any other one is for it.
func answered(f facts) v1alpha1.NodeRequests {
	asked, before := f.nodeFirmware.Spec.Requests, f.nodeFirmware.Status.Requests
	out := v1alpha1.NodeRequests{
		Retry:   ptr.Deref(f.records.retry, cmp.Or(asked.Retry, before.Retry)),
		Release: ptr.Deref(f.records.release, cmp.Or(asked.Release, before.Release)),
		Scan:    before.Scan, Adopt: before.Adopt,
	}
	if asked.Scan != "" && asked.Scan == f.snapshot.Answers {
		out.Scan = asked.Scan
	}
	return out
}

func machine(m *inventory.Machine) *v1alpha1.Machine {
	if m == nil {
		return nil
	}
	out := v1alpha1.Machine{
		Vendor: text.Clip(m.Manufacturer, 128), Model: text.Clip(m.Model, 128), SerialNumber: text.Clip(m.SerialNumber, 128),
	}
	if out == (v1alpha1.Machine{}) {
		return nil
	}
	return &out
}
