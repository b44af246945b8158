package discovery

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// deviceStatus is the status of a device: observed from the hardware in this pass, or, where it could not be read,
// kept from the last pass that could.
func deviceStatus(found inventory.Device, obj v1alpha1.NodeDevice, f facts, now time.Time) v1alpha1.NodeDeviceStatus {
	observed := plan.FactsOf(found)
	out := describe(found)
	if observed.Unreadable != "" && obj.Status.UniqueID != "" {
		out = *obj.Status.DeepCopy()
		out.Configuration, out.Parameters = nil, nil
	}
	powerOn(&out, found.PowerOnHours, obj.Status, obj.CreationTimestamp.Time, now)
	out.ObservedGeneration = obj.Generation
	out.Applied = applied(f.records, obj.Status, out.UniqueID)
	out.Failure = failure(f, obj, out.Applied, out.UniqueID)
	report := status.DeviceFacts{Node: f.node}
	switch fail := out.Failure; {
	case fail == nil:
	case out.IsUnhealthy():
		report.Unhealthy = strings.TrimSuffix("job "+fail.Job+": "+fail.Message, ": ")
		observed.Unhealthy, observed.UnhealthyUnder = true, &fail.Request
	default:
		report.Failure = strings.TrimSuffix(fail.Reason+": "+fail.Message, ": ")
		observed.FailedUnder, observed.FailedDigest, observed.Restored = &fail.Request, desired.Digest(fail.Digest), fail.Reason == v1alpha1.ReasonRestored
	}
	want := desired.Of(obj.Spec.Firmware, f.retry())
	report.Desired, report.Observed, report.Verdict = want.Version, observed, plan.Decide(want, observed)
	if report.Verdict.Outcome == plan.UpToDate && obj.Spec.Firmware != nil && observed.Unreadable == "" && !f.records.updating[out.UniqueID] &&
		!out.IsUnhealthy() && (out.Failure == nil || out.Failure.Digest != obj.Spec.Firmware.Digest) {
		out.Applied = atTarget(out.Applied, f.records.devices[out.UniqueID].LastApplied, obj.Spec, found.Firmware.Running, f.snapshot.BootID, now)
	}
	if c := obj.Spec.Configuration; c != nil {
		report.Settings = settingsOf(found, obj, f, report.Verdict.Outcome.Due(), &out)
		if inForce(out.Configuration, c) && !f.records.updating[out.UniqueID] && !out.IsUnhealthy() {
			out.Applied = configured(out.Applied, obj.Spec, f.snapshot.BootID, now)
		}
	}
	report.Drifted = f.drift(found, obj, &out)
	if f.records.updating[out.UniqueID] && f.records.step != nil {
		report.Updating = f.records.working()
	}
	out.Conditions = status.Device(report, obj.Status.Conditions, obj.Generation, now)
	return out
}

// describe translates what a scan found into the fields of the API, within their bounds.
func describe(d inventory.Device) v1alpha1.NodeDeviceStatus {
	s := v1alpha1.NodeDeviceStatus{
		Class:    v1alpha1.DeviceClass(d.Class),
		UniqueID: text.Clip(d.UniqueID, 128), Vendor: text.Clip(d.Vendor, 128), PCIID: pciID(d.VendorID, d.DeviceID), SubsystemID: pciID(d.SubsystemVendorID, d.SubsystemDeviceID),
		Model: text.Clip(d.Model, 128), BoardID: text.Clip(d.BoardID, 64), SerialNumber: text.Clip(d.SerialNumber, 128),
	}
	if len(d.PCI) > 0 {
		s.PCIAddress = d.PCI[0].String()
	}
	for _, p := range d.Ports[:min(len(d.Ports), 32)] {
		s.Ports = append(s.Ports, v1alpha1.DevicePort{
			PCIAddress: p.PCI.String(), NetDevice: text.Clip(p.NetDevice, 16), LinkType: v1alpha1.LinkType(p.Link),
		})
	}
	for _, a := range d.Arrays[:min(len(d.Arrays), 8)] {
		s.Arrays = append(s.Arrays, text.Clip(a, 128))
	}
	if d.Firmware != nil {
		s.Firmware = describeFirmware(*d.Firmware, d.Driver, d.DriverMessage)
	}
	return s
}

// pciID is the API's form of two ids; empty for a device that has none.
func pciID(vendor, device string) string {
	if vendor == "" || device == "" {
		return ""
	}
	return strings.ToLower(text.Clip(vendor, 4) + ":" + text.Clip(device, 4))
}

func describeFirmware(f inventory.Firmware, driver, driverMessage string) *v1alpha1.ObservedFirmware {
	out := &v1alpha1.ObservedFirmware{
		Running: text.Clip(string(f.Running), 64), Stored: text.Clip(string(f.Stored), 64),
		Activation: v1alpha1.ActivationKind(f.Activation.String()), Driver: text.Clip(driver, 63),
		VersionFormat: v1alpha1.VersionFormatPlain, Rollback: v1alpha1.RollbackKind(f.Rollback.String()), Access: v1alpha1.AccessReadWrite,
	}
	if f.Format == inventory.FormatDotted {
		out.VersionFormat = v1alpha1.VersionFormatDotted
	}
	if f.ReadOnly != "" {
		out.Access = v1alpha1.AccessReadOnly
	}
	for _, note := range []string{f.ReadOnly, f.ActivationMessage, driverMessage, f.RollbackMessage} {
		if note != "" && !slices.Contains(out.Notes, text.Clip(note, maxNote)) {
			out.Notes = append(out.Notes, text.Clip(note, maxNote))
		}
	}
	return out
}

// maxNote bounds a note, as the API does.
const maxNote = 256

// applied is the last success of a device according to the journal, unless the object says something later. Where the journal has none,
// such as after the loss of the state directory, that of the object is kept.
func applied(r records, old v1alpha1.NodeDeviceStatus, uniqueID string) *v1alpha1.AppliedFirmware {
	applied := old.Applied
	if old.UniqueID != "" && old.UniqueID != uniqueID {
		applied = nil
	}
	if last := r.devices[uniqueID].LastApplied; last != nil && (applied == nil || applied.Time.Time.Before(last.Time.Truncate(time.Second))) {
		return appliedFirmware(last)
	}
	return applied
}

// failure is what keeps images from a device: the mark of a job that left it unhealthy, until a person clears that, and otherwise its last
// failed update. Where the journal knows of none, such as after the loss of the state directory, that of the object is kept, because it
// must not vanish by accident: a mark until a person clears it, and a failed update until a later success. A version that had no image when
// other firmware was restored is kept away while it is the desired one.
func failure(f facts, obj v1alpha1.NodeDevice, applied *v1alpha1.AppliedFirmware, uniqueID string) *v1alpha1.DeviceFailure {
	old, want := obj.Status, obj.Spec.Firmware
	record, known := f.records.devices[uniqueID]
	mark, failed := unhealthyDevice(record.Unhealthy), failedFirmware(record.LastFailure)
	if known && record.Attempts != nil { // a first update since then says nothing of earlier ones before it has ended
		known = record.LastApplied != nil || record.LastFailure != nil || record.Unhealthy != nil
	}
	if !known && (old.UniqueID == uniqueID || old.UniqueID == "") {
		switch {
		case old.IsUnhealthy():
			mark = old.Failure
		case old.Failure != nil && (applied == nil || !applied.Time.Time.After(old.Failure.Time.Time)): // what is restored is both
			failed = old.Failure
		}
	}
	switch last := record.LastFailure; {
	case mark != nil && !f.retry().Clears(&mark.Request):
		return mark
	case last != nil && last.Digest == "" && want != nil && string(inventory.NormalizeVersion(want.Version)) != last.Version:
		return nil
	}
	return failed
}

// moment is a time as the API keeps it, in whole seconds.
func moment(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// currentStep is the step of the active job that runs; nil when none does.
func currentStep(v journal.View) *v1alpha1.CurrentStep {
	job := v.Active()
	if job == nil {
		return nil
	}
	s := job.CurrentStep()
	if s == nil {
		return nil
	}
	return &v1alpha1.CurrentStep{Job: job.Name, Name: string(s.Kind)}
}

func appliedFirmware(a *journal.Applied) *v1alpha1.AppliedFirmware {
	return &v1alpha1.AppliedFirmware{Digest: v1alpha1.Digest(a.Digest), Origin: origin(a.Origin), BootID: a.BootID, Time: moment(a.Time)}
}

func origin(from []journal.Origin) []v1alpha1.Origin {
	var out []v1alpha1.Origin
	for _, o := range from {
		out = append(out, v1alpha1.Origin{
			Kind: v1alpha1.OriginKind(o.Kind), Name: o.Name, UID: o.UID, Generation: o.Generation, Rule: o.Rule, Hash: o.Hash,
		})
	}
	return out
}

func failedFirmware(f *journal.Failure) *v1alpha1.DeviceFailure {
	if f == nil {
		return nil
	}
	return &v1alpha1.DeviceFailure{
		Reason: f.Reason, Digest: v1alpha1.Digest(f.Digest), Message: f.Message, Job: f.Job, Time: moment(f.Time), Request: ptr.Deref(f.Retry, ""),
	}
}

func unhealthyDevice(m *journal.UnhealthyMark) *v1alpha1.DeviceFailure {
	if m == nil {
		return nil
	}
	return &v1alpha1.DeviceFailure{
		Reason: v1alpha1.ReasonUnhealthy, Message: text.Clip(m.Message, 1024), Job: m.Job, Time: moment(m.Since), Request: ptr.Deref(m.Retry, ""),
	}
}
