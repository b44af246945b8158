package discovery

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/node/devicename"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Parameters are all those of one device, or why they could not be read.
type Parameters struct {
	All []inventory.Parameter
	Err error
}

// parallel is of how many devices the parameters are read at once.
const parallel = 4

// parameters reads those of the devices that were found and for which settings are desired, or of which an update changed settings that
// nobody declares. Nothing is asked of any other.
func (d *Discovery) parameters(ctx context.Context, found host.Inventory) map[string]Parameters {
	d.mu.Lock()
	declared := d.declared
	d.mu.Unlock()
	drifted := d.drifted()
	if d.config.Settings == nil || len(declared)+len(drifted) == 0 {
		return nil
	}
	out := map[string]Parameters{}
	slots := make(chan struct{}, parallel)
	var group sync.WaitGroup
	var mu sync.Mutex
	for _, device := range found.Devices {
		want := declared[devicename.Of(d.config.Node, device.Identity)]
		if device.Err != nil || want == nil && len(drifted[device.UniqueID]) == 0 {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			var read Parameters
			read.All, read.Err = d.config.Settings.Parameters(ctx, device, d.guard)
			if read.Err == nil && want != nil && d.giveAgain(ctx, device, want, read.All, found.BootID) {
				read.All, read.Err = d.config.Settings.Parameters(ctx, device, d.guard)
			}
			d.noteAsBefore(device.UniqueID, drifted[device.UniqueID], read)
			mu.Lock()
			defer mu.Unlock()
			out[device.UniqueID] = read
		})
	}
	group.Wait()
	return out
}

// declare notes for which devices settings are desired, so that the next scan reads what these have. It reports whether the last scan left
// out one of them, because nothing was desired of it then.
func (d *Discovery) declare(f facts) (missing bool) {
	declared := map[string]*v1alpha1.DesiredConfiguration{}
	for i := range f.devices {
		if c := f.devices[i].Spec.Configuration; c != nil {
			declared[f.devices[i].Name] = c
		}
	}
	d.mu.Lock()
	d.declared = declared
	d.mu.Unlock()
	return f.settings && slices.ContainsFunc(f.snapshot.Devices, func(device inventory.Device) bool {
		return declared[devicename.Of(f.node, device.Identity)] != nil && f.unasked(device)
	})
}

// unasked reports whether the scan could read the device and did not ask it for its parameters.
func (f facts) unasked(d inventory.Device) bool {
	_, asked := f.snapshot.Parameters[d.UniqueID]
	return d.Err == nil && !asked
}

// waits reports whether the status of a device stays as it is until the scan that asks it for its parameters, which is requested. One that a
// job works on is reported meanwhile.
func (f facts) waits(found inventory.Device, obj v1alpha1.NodeDevice) bool {
	return f.settings && obj.Spec.Configuration != nil && f.unasked(found) && !f.records.updating[found.UniqueID]
}

// settingsOf says how far the device has its settings, in its status and for its conditions. What was last read stays where they cannot be read.
// FirmwareDue says that a job is due to flash the device, which may bring a parameter that is not known yet.
func settingsOf(found inventory.Device, obj v1alpha1.NodeDevice, f facts, firmwareDue bool, out *v1alpha1.NodeDeviceStatus) *status.SettingsFacts {
	declared := *obj.Spec.Configuration
	want := desired.Configuration(declared)
	report := &status.SettingsFacts{Declared: len(want.Set), ReportOnly: declared.Policy == v1alpha1.PolicyValidate}
	read, asked := f.snapshot.Parameters[found.UniqueID]
	switch {
	case found.Err != nil: // what the device says of itself is not known either
		report.Unread = found.Err.Error()
	case !asked:
		report.Unread = "they were not asked for yet"
	case errors.Is(read.Err, driver.ErrNotSupported):
		report.Decision.Refusal = strings.TrimSuffix(read.Err.Error(), ": "+driver.ErrNotSupported.Error())
		out.Configuration = &v1alpha1.ObservedConfiguration{Digest: declared.Digest(), State: v1alpha1.ConfigurationInvalid}
		return report
	case read.Err != nil:
		report.Unread = read.Err.Error()
	}
	if report.Unread != "" {
		if obj.Status.UniqueID == out.UniqueID {
			out.Configuration, out.Parameters = obj.Status.Configuration.DeepCopy(), slices.Clone(obj.Status.Parameters)
		}
		f.noteFailure(obj, out, report)
		return report
	}
	decided := plan.DecideConfiguration(*want, read.All, firmwareDue)
	report.Decision = decided
	is := v1alpha1.ObservedConfiguration{Digest: declared.Digest(), State: v1alpha1.ConfigurationUpToDate}
	switch {
	case decided.Refusal != "":
		is.State = v1alpha1.ConfigurationInvalid
	case len(decided.Changes)+len(decided.Later) > 0:
		is.State = v1alpha1.ConfigurationOutOfDate
	}
	if is.State != v1alpha1.ConfigurationInvalid && decided.Activation != inventory.ActivateNone {
		is.Activation = v1alpha1.ActivationKind(decided.Activation.String())
	}
	out.Configuration, out.Parameters = &is, withParameters(nil, slices.Concat(want.Set, decided.Resets), false, read.All)
	f.noteFailure(obj, out, report)
	return report
}

// noteFailure says which failure keeps the settings from the device: that of the journal, and where it knows of none, such as after the loss of
// the state directory, that of the object, until the settings are found in force. One of other settings, or that a person's request to retry
// clears, is gone.
func (f facts) noteFailure(obj v1alpha1.NodeDevice, out *v1alpha1.NodeDeviceStatus, report *status.SettingsFacts) {
	is := out.Configuration
	if is == nil {
		return
	}
	failure := failedFirmware(f.records.devices[out.UniqueID].SettingsFailure)
	if old := obj.Status.Configuration; failure == nil && old != nil && obj.Status.UniqueID == out.UniqueID && is.State != v1alpha1.ConfigurationUpToDate {
		failure = old.Failure
	}
	restored := failure != nil && failure.Reason == v1alpha1.ReasonRestored
	if restored && is.State == v1alpha1.ConfigurationUpToDate { // what was restored is what is desired
		failure = nil
	}
	if failure != nil && (failure.Digest != obj.Spec.Configuration.Digest() || f.retry().Clears(&failure.Request)) {
		failure = nil
	}
	if is.Failure = failure.DeepCopy(); failure != nil {
		report.Restored = restored
		report.Failure = strings.TrimSuffix(failure.Reason+": "+failure.Message, ": ")
	}
}

// inForce reports whether the device was found to have these settings, now or when it was last read, and they did not fail.
func inForce(is *v1alpha1.ObservedConfiguration, want *v1alpha1.DesiredConfiguration) bool {
	return is != nil && is.Digest == want.Digest() && is.State == v1alpha1.ConfigurationUpToDate && is.Failure == nil
}

// The bounds of the API.
const (
	maxParameters = 160
	maxName       = 128
	maxValue      = 512
)

// maxParametersSize bounds all of them in bytes of JSON, so that a NodeDevice with a long upgrade path stays under 256 KiB.
const maxParametersSize = 32 << 10

// withParameters adds those of the settings to the ones that a status lists, as far as there is room, by name. The value of one that drifted is
// what it was before.
func withParameters(out []v1alpha1.ObservedParameter, of []inventory.Setting, drifted bool, all []inventory.Parameter) []v1alpha1.ObservedParameter {
	size := v1alpha1.SizeOf(out)
	for _, s := range of {
		p := inventory.FindParameter(all, s.Name)
		if p == nil || len(p.Name) > maxName || len(out) == maxParameters {
			continue
		}
		is := v1alpha1.ObservedParameter{Name: p.Name, Current: observed(p.Current), Next: observed(p.Next)}
		if drifted {
			is.Was = &s.Value
		}
		bytes := v1alpha1.SizeOf(is) + len(",")
		if size+bytes > maxParametersSize {
			continue
		}
		size += bytes
		out = append(out, is)
	}
	slices.SortStableFunc(out, byName)
	return slices.CompactFunc(out, func(a, b v1alpha1.ObservedParameter) bool { return a.Name == b.Name })
}

func byName(a, b v1alpha1.ObservedParameter) int { return cmp.Compare(a.Name, b.Name) }

func observed(r inventory.Reading) *string {
	if !r.Known {
		return nil
	}
	value := text.Clip(r.Value, maxValue)
	return &value
}
