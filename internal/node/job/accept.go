package job

import (
	"cmp"
	"maps"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/trace"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// newJob makes the job for the engine. A device without a NodeDevice has no class, and its update fails in the preflight.
func (r *Reconciler) newJob(f state) journal.Job {
	o := f.object
	j := journal.Job{
		Name: o.Name, UID: string(o.UID), Accepted: f.now, Retry: cmp.Or(o.Spec.Task.Request, f.retry.InForce()),
		Soak: o.Spec.Task.HealthyFor.Duration(0), TraceParent: trace.Header(trace.Parent(o)),
	}
	if r.StartTimeout > 0 {
		j.Deadline = f.now.Add(r.StartTimeout)
	}
	switch o.Spec.Task.Type {
	case v1alpha1.JobTypeSteps:
		r.request(&j, f)
		return j
	case v1alpha1.JobTypeBackup:
		j.Backup = true
		j.Updates, _ = backups(f)
		j.Record = engine.NewBackup(r.Catalog, j.Updates)
		j.Record.RollbackRequired = len(o.Spec.Task.Devices) > 0 || !slices.ContainsFunc(j.Updates, func(u journal.Update) bool { return readable(f.devices[u.Device]) })
		return j
	case v1alpha1.JobTypeRestore:
		j.Updates, _ = restores(f) // a job that must not begin is refused, and never submitted
	default:
		for _, u := range o.Spec.Task.Devices {
			d := f.devices[u.Name]
			if !f.wishes.goesBack(u, d, f.records[d.Status.UniqueID]) {
				u.RollbackDigest = ""
			}
			j.Updates = append(j.Updates, updateOf(u, d))
		}
	}
	j.Record = engine.NewRecord(r.Catalog, j.Updates)
	j.ProtectionRequired = o.Spec.Task.Require.Has(v1alpha1.RequireWriteProtection)
	j.UnlockRequired = o.Spec.Task.Require.Has(v1alpha1.RequireUnlock)
	j.Record.RollbackRequired = o.Spec.Task.Require.Has(v1alpha1.RequireRollback)
	return j
}

// request makes the record of a job of type Steps. A request that this host does not know fails the job before it begins.
func (r *Reconciler) request(j *journal.Job, f state) {
	j.Requested = requested(f.object.Spec.Task.Steps)
	var wanted []plan.Request
	for _, s := range f.object.Spec.Task.Steps {
		r := plan.Request{Name: s.Name, Device: s.Device, Deadline: s.Deadline.Duration(0)}
		for _, a := range s.Arguments {
			r.Arguments = append(r.Arguments, plan.Argument{Name: a.Name, Value: a.Value})
		}
		wanted = append(wanted, r)
	}
	var devices []plan.Target
	for _, name := range slices.Sorted(maps.Keys(f.devices)) {
		d := f.devices[name]
		t := plan.Target{Device: name, Class: inventory.Class(d.Status.Class)}
		if fw := d.Status.Firmware; fw != nil {
			t.Driver = fw.Driver
		}
		devices = append(devices, t)
	}
	list := r.Catalog.Requested
	if f.object.Spec.Task.CleaningPolicyRef != nil {
		list = r.Catalog.Cleaning
	}
	steps, err := list(wanted, devices)
	if err != nil {
		j.Record = step.Refused(step.StepFailed, err.Error())
		return
	}
	var touched []step.Update
	for _, s := range steps {
		if s.Device == "" || slices.ContainsFunc(touched, func(u step.Update) bool { return u.Device == s.Device }) {
			continue
		}
		touched = append(touched, step.Update{Device: s.Device})
		j.Updates = append(j.Updates, stepDevice(f.devices[s.Device]))
	}
	j.Record = step.New(steps, touched...)
}

// stepDevice is a device that a step works on, with its desired firmware.
func stepDevice(d v1alpha1.NodeDevice) journal.Update {
	u := v1alpha1.TaskDevice{Name: d.Name, UniqueID: d.Status.UniqueID}
	if fw := d.Status.Firmware; fw != nil {
		u.FromVersion = fw.Running
	}
	if desired := d.Spec.Firmware; desired != nil {
		u.Version, u.Digest = desired.Version, desired.Digest
	}
	return updateOf(u, d)
}

// updateOf is the update with what the NodeDevice says beside the job: where the firmware and the settings come from, what these are, and
// whether the firmware may be older.
func updateOf(u v1alpha1.TaskDevice, d v1alpha1.NodeDevice) journal.Update {
	s := d.Status
	out := journal.Update{
		Device: u.Name, UniqueID: u.UniqueID, FromVersion: u.FromVersion, Version: u.Version, Digest: string(u.Digest),
		RollbackDigest: string(u.RollbackDigest),
		Class:          inventory.Class(s.Class),
	}
	if s.Firmware != nil {
		out.Driver = s.Firmware.Driver
	}
	firmware, settings := v1alpha1.SplitOrigin(d.Spec.Origin)
	var from []v1alpha1.Origin
	if w := d.Spec.Firmware; w != nil && (u.Digest != "" || u.Configuration == "") {
		out.AllowDowngrade, from = w.Downgrade == v1alpha1.DowngradeAllow, firmware
	}
	out.Configuration = string(u.Configuration)
	if w := d.Spec.Configuration; w != nil && u.Configuration != "" && w.Digest() == u.Configuration { // a job that differs is refused
		c := desired.Configuration(*w)
		out.Settings, out.ResetUnlisted = journal.Settings(c.Set), c.ResetUnlisted
		from = slices.Concat(from, settings)
	}
	out.Origin = originOf(from)
	return out
}

func originOf(from []v1alpha1.Origin) []journal.Origin {
	var out []journal.Origin
	for _, o := range from {
		out = append(out, journal.Origin{Kind: string(o.Kind), Name: o.Name, UID: o.UID, Generation: o.Generation, Rule: o.Rule, Hash: o.Hash})
	}
	return out
}

func requested(steps []v1alpha1.RequestedStep) []journal.RequestedStep {
	var out []journal.RequestedStep
	for _, s := range steps {
		r := journal.RequestedStep{Name: s.Name, Device: s.Device}
		for _, e := range s.Expect {
			expected := journal.Expectation{Selector: journal.Selector{
				Class: inventory.Class(e.Selector.Class), Vendor: e.Selector.Vendor, Models: e.Selector.Models, BoardIDs: e.Selector.BoardIDs,
				SerialNumbers: e.Selector.SerialNumbers, PCIAddresses: e.Selector.PCIAddresses,
			}}
			if e.Count != nil {
				expected.Count = int(*e.Count)
			}
			r.Expected = append(r.Expected, expected)
		}
		out = append(out, r)
	}
	return out
}
