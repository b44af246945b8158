package job

import (
	"fmt"
	"maps"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// backups are the devices that a job of type Backup reads: those that it names, or all of the node; or why it must not begin.
func backups(f state) ([]journal.Update, *step.Failure) {
	named := f.object.Spec.Task.Devices
	if len(named) == 0 {
		for _, name := range slices.Sorted(maps.Keys(f.devices)) {
			named = append(named, v1alpha1.TaskDevice{Name: name})
		}
	}
	var out []journal.Update
	for _, u := range named {
		d, failure := f.device(u)
		if failure != nil {
			return nil, failure
		}
		u.UniqueID = d.Status.UniqueID
		out = append(out, updateOf(u, d))
	}
	if len(out) == 0 {
		return nil, &step.Failure{Step: plan.Archive, Reason: step.JobRejected, Message: "this node has no NodeDevice to back up; see that its daemon has scanned it"}
	}
	return out, nil
}

// readable reports whether the running firmware of the device can be read.
func readable(d v1alpha1.NodeDevice) bool {
	return d.Status.Firmware != nil && d.Status.Firmware.Rollback == v1alpha1.RollbackReadBack
}

// restores are the updates of a job of type Restore, with the entries of the archive that hold their images; or why it must not begin.
func restores(f state) ([]journal.Update, *step.Failure) {
	var out []journal.Update
	for _, u := range f.object.Spec.Task.Devices {
		d, failure := f.device(u)
		if failure != nil {
			return nil, failure
		}
		e := f.entry(u, d)
		if e == nil {
			return nil, refused(step.RollbackUnavailable, u.Name, "the archive of this node holds no image%s of it that may be restored; "+
				"firmware-daemon archive list, in the pod of its daemon, lists what there is", wanted(u))
		}
		m := e.Manifest
		next := updateOf(v1alpha1.TaskDevice{
			Name: u.Name, UniqueID: d.Status.UniqueID, Version: string(m.Version), Digest: v1alpha1.Digest(m.Digest),
		}, d)
		next.Archived, next.AllowDowngrade, next.Origin, next.Desired = e.Name, true, nil, displaced(d, m.Version)
		if next.ArchivedSettings = len(m.Settings) > 0; next.ArchivedSettings && d.Spec.Configuration != nil {
			next.Configuration = string(d.Spec.Configuration.Digest())
			for _, s := range desired.Configuration(*d.Spec.Configuration).Set {
				next.Declared = append(next.Declared, s.Name)
			}
		}
		out = append(out, next)
	}
	return out, f.leavesBehind()
}

// device is the device of the node that a job of a person names.
func (f state) device(u v1alpha1.TaskDevice) (v1alpha1.NodeDevice, *step.Failure) {
	d, known := f.devices[u.Name]
	switch {
	case !known:
		return d, refused(step.JobRejected, u.Name, "node %s has no NodeDevice of that name", f.object.Spec.NodeName)
	case u.UniqueID != "" && u.UniqueID != d.Status.UniqueID:
		return d, refused(step.JobRejected, u.Name, "the job is for the device with the id %s, but this one has %s", u.UniqueID, d.Status.UniqueID)
	}
	return d, nil
}

func refused(r step.Reason, device, format string, args ...any) *step.Failure {
	return &step.Failure{Step: plan.Preflight, Device: device, Reason: r, Message: device + ": " + fmt.Sprintf(format, args...) + ". Nothing was done; create another job"}
}

func wanted(u v1alpha1.TaskDevice) string {
	out := ""
	if u.Version != "" {
		out += " of version " + u.Version
	}
	if u.Digest != "" {
		out += " with the digest " + string(u.Digest)
	}
	return out
}

// entry is the newest entry of the archive that the person asks for; nil where there is none. Where neither version nor digest is named, it
// is what a rollback would restore, or else the newest one that does not run. Evidence is never restored.
func (f state) entry(u v1alpha1.TaskDevice, d v1alpha1.NodeDevice) *archive.Entry {
	good := f.records[d.Status.UniqueID].LastGood
	for i := range f.entries {
		e := &f.entries[i]
		m := e.Manifest
		if e.Err != nil || e.Unhealthy || m.UniqueID != d.Status.UniqueID {
			continue
		}
		asked := u.Version != "" || u.Digest != ""
		switch {
		case u.Version != "" && inventory.NormalizeVersion(u.Version) != inventory.NormalizeVersion(string(m.Version)):
		case u.Digest != "" && desired.Digest(u.Digest).String() != m.Digest:
		case !asked && good != "" && good != string(m.Version):
		case !asked && good == "" && (d.Status.Firmware == nil || d.Status.Firmware.Running == string(m.Version)):
		default:
			return e
		}
	}
	return nil
}

// displaced is what would be flashed next over the restored version; nil where nothing would be. It has no digest where its source has no
// image yet.
func displaced(d v1alpha1.NodeDevice, restored inventory.Version) *journal.Desired {
	facts := plan.Facts{Driver: "any", Running: restored}
	if fw := d.Status.Firmware; fw != nil && fw.VersionFormat == v1alpha1.VersionFormatDotted {
		facts.Format = inventory.FormatDotted
	}
	want := desired.Of(d.Spec.Firmware, "")
	switch next := plan.Decide(want, facts); {
	case next.Outcome.Due():
		return &journal.Desired{Version: string(next.Version), Digest: next.Digest.String()}
	case next.Reason == plan.ReasonImageNotFound:
		return &journal.Desired{Version: string(want.Version)}
	}
	return nil
}

// leavesBehind refuses a restore that would return a held node to service with a device that nothing restored or judged.
func (f state) leavesBehind() *step.Failure {
	if f.stays == nil {
		return nil
	}
	if why := f.stays.Record.Failure; why != nil && why.Reason == step.JobRejected {
		return &step.Failure{Step: plan.Preflight, Reason: step.JobRejected, Message: fmt.Sprintf("nobody knows what job %s, which holds the node, has done, and "+
			"this job would return the node to service. Nothing was done; look at the node, release it, and create another job", f.stays.Name)}
	}
	for _, name := range slices.Sorted(maps.Keys(f.devices)) {
		listed := slices.ContainsFunc(f.object.Spec.Task.Devices, func(u v1alpha1.TaskDevice) bool { return u.Name == name })
		mark := f.records[f.devices[name].Status.UniqueID].Unhealthy
		if !listed && (mark != nil && !f.retry.Clears(mark.Retry) || unfinished(*f.stays, name)) {
			return refused(step.JobRejected, name, "job %s, which holds the node, left it unhealthy or unfinished as well, and this job would return the node "+
				"to service; list it too", f.stays.Name)
		}
	}
	if !slices.ContainsFunc(f.object.Spec.Task.Devices, func(u v1alpha1.TaskDevice) bool { return concerns(*f.stays, u.Name) }) {
		return &step.Failure{Step: plan.Preflight, Reason: step.JobRejected, Message: fmt.Sprintf("job %s holds the node for something other than these devices, "+
			"and this job would return the node to service. Nothing was done; release the node, and create another job", f.stays.Name)}
	}
	return nil
}

// concerns reports whether the hold of the job is about the device: one that the job may have changed, or failed at. Steps that a person
// requested are not repeated by a restore, so that only the one that failed counts.
func concerns(j journal.Job, device string) bool {
	return j.Record.Failure.Device == device || len(j.Requested) == 0 && touched(j, device)
}

// touched reports whether the job changed the device, or took its node over from one that may have.
func touched(j journal.Job, device string) bool {
	named := func(u journal.Update) bool { return u.Device == device }
	return j.Record.Touched(device) || j.Record.Inherited && slices.ContainsFunc(j.Updates, named)
}

// unfinished reports whether the job touched the device and did not read back what it should then run.
func unfinished(j journal.Job, device string) bool {
	return touched(j, device) && !slices.ContainsFunc(j.Record.Steps, func(s step.Step) bool {
		return s.Kind == plan.Verify && s.Device == device && s.State == step.Succeeded
	})
}
