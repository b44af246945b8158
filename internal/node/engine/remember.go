package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// remember returns the records of devices that an action changes. They are journalled together with the action.
func (x *execution) remember(next journal.Job, a step.Action, bootID string, now time.Time) ([]journal.Device, error) {
	m := memory{job: next, bootID: bootID, now: now, drift: x.drift}
	switch {
	case a.Verb == step.Begin:
		m.count(next.Record.Steps[a.Step])
	case a.Verb == step.RollBack && a.Failure != nil:
		m.unhealthy(next.Record.Failure.Blames, *a.Failure)
	case a.Verb == step.Settle && a.Failure != nil && next.Record.Steps[a.Step].Rollback:
		m.unhealthy(next.Record.Failure.Blames, *a.Failure)
	case a.Verb == step.Settle && a.Failure != nil:
		m.failed(*a.Failure)
	case a.Verb == step.Settle && next.Record.Steps[a.Step].Kind == plan.Health && a.State == step.Succeeded:
		m.committed()
	}
	return m.complete(x.cfg.Journal)
}

// memory collects what changes in the records of devices.
type memory struct {
	job     journal.Job
	bootID  string
	now     time.Time
	drift   map[string][]journal.Setting
	changes []change
}

type change struct {
	uniqueID string
	apply    func(*journal.Device)
}

func (m *memory) change(uniqueID string, apply func(*journal.Device)) {
	m.changes = append(m.changes, change{uniqueID, apply})
}

// complete applies the changes to what is known of the devices.
func (m *memory) complete(book Journal) ([]journal.Device, error) {
	if len(m.changes) == 0 {
		return nil, nil
	}
	view, err := book.View()
	if err != nil {
		return nil, err
	}
	known := map[string]journal.Device{}
	var order []string
	for _, c := range m.changes {
		d, ok := known[c.uniqueID]
		if !ok {
			d = view.Devices[c.uniqueID]
			d.UniqueID = c.uniqueID
			order = append(order, c.uniqueID)
		}
		c.apply(&d)
		known[c.uniqueID] = d
	}
	var out []journal.Device
	for _, id := range order {
		out = append(out, known[id])
	}
	return out, nil
}

// count counts the attempt that begins. What the device was before its first write is the last that is known to be good.
func (m *memory) count(s step.Step) {
	for _, u := range m.job.Updates {
		switch {
		case s.Kind == plan.Flash && s.Device == u.Device:
			m.change(u.UniqueID, func(d *journal.Device) {
				a := attempts(*d, u.Digest)
				if m.job.Clearance().Clears(a.Retry) {
					a.Cleared = a.Writes
				}
				if d.LastGood == "" {
					d.LastGood = string(m.job.Record.Target(u.Device, true))
				}
				a.Writes, a.Last, a.Retry, d.Attempts = a.Writes+1, m.now, m.job.Retry, &a
			})
		case s.Kind == plan.Configure && s.Device == u.Device:
			m.change(u.UniqueID, func(d *journal.Device) {
				d.GoodSettings, d.Configured = u.Before, nil
			})
		case s.Kind == plan.Reboot && u.Digest != "" && len(m.job.Requested) == 0 && m.job.Record.Touched(u.Device):
			m.change(u.UniqueID, func(d *journal.Device) {
				a := attempts(*d, u.Digest)
				a.Reboots, d.Attempts = a.Reboots+1, &a
			})
		}
	}
}

// attempts are those of the image: none were made where the record counts another one.
func attempts(d journal.Device, image string) journal.Attempts {
	if d.Attempts == nil || d.Attempts.Digest != image {
		return journal.Attempts{Digest: image}
	}
	return *d.Attempts
}

// committed records the firmware that the health gate accepted: what was updated and not rolled back.
func (m *memory) committed() {
	r := m.job.Record
	for _, u := range m.job.Updates {
		restored := r.Rollback != nil && slices.Contains(r.Rollback.Devices, u.Device)
		switch {
		case restored:
			m.change(u.UniqueID, func(d *journal.Device) { d.Unhealthy, d.LastGood, d.GoodSettings = nil, "", nil })
		case verified(r, u.Device) && u.Version == "":
			m.change(u.UniqueID, func(d *journal.Device) {
				d.Unhealthy, d.LastGood, d.GoodSettings = nil, "", nil
				if u.Configures() {
					d.SettingsFailure, d.Configured = nil, m.configured(u)
				}
			})
		case verified(r, u.Device):
			m.change(u.UniqueID, func(d *journal.Device) {
				// An earlier job may have written it, and a person's power-cycle activated it.
				wrote := r.Flashed(u.Device) || d.Attempts != nil && d.Attempts.Digest == u.Digest
				settings, configured := d.SettingsFailure, d.Configured
				switch {
				case u.ArchivedSettings && u.Configuration != "":
					settings, configured = m.displacedSettings(u), nil
				case u.ArchivedSettings:
				case u.Configures():
					settings, configured = nil, m.configured(u)
				}
				*d = journal.Device{UniqueID: d.UniqueID, LastApplied: d.LastApplied, SettingsFailure: settings, Configured: configured, Drift: d.Drift}
				if wrote {
					d.LastApplied = &journal.Applied{
						Version: u.Version, Digest: u.Digest, Origin: u.Origin, Job: m.job.Name, BootID: m.bootID, Time: m.now,
					}
				}
				if u.Desired != nil {
					d.LastFailure = m.displaced(u)
				}
			})
		}
		if drift, known := m.drift[u.UniqueID]; known {
			m.change(u.UniqueID, func(d *journal.Device) { d.Drift = drift })
		} else if verified(r, u.Device) && !restored {
			m.change(u.UniqueID, func(d *journal.Device) { d.Drift = notGiven(d.Drift, u) })
		}
	}
}

// notGiven are those of the settings that drifted which the update did not give the device.
func notGiven(drift []journal.Setting, u journal.Update) []journal.Setting {
	if u.ResetUnlisted || u.ArchivedSettings {
		return nil
	}
	given := slices.Concat(u.Settings, u.Resets, u.Before) // what one stands for is in the last
	return slices.DeleteFunc(slices.Clone(drift), func(d journal.Setting) bool {
		return slices.ContainsFunc(given, func(s journal.Setting) bool { return s.Name == d.Name })
	})
}

// configured are the settings of the update, which are in force; nil where they have no name.
func (m *memory) configured(u journal.Update) *journal.Configured {
	if u.Configuration == "" {
		return nil
	}
	return &journal.Configured{Digest: u.Configuration, BootID: m.bootID}
}

// displaced keeps the image that was desired when a person restored another one from being flashed over that.
func (m *memory) displaced(u journal.Update) *journal.Failure {
	return &journal.Failure{
		Version: u.Desired.Version, Digest: u.Desired.Digest, Reason: string(plan.ReasonRestored),
		Message: u.Version + " was restored in its place", Job: m.job.Name, Time: m.now, Retry: m.job.Retry,
	}
}

// displacedSettings is displaced for the settings that are declared for the device.
func (m *memory) displacedSettings(u journal.Update) *journal.Failure {
	return &journal.Failure{
		Digest: u.Configuration, Reason: string(plan.ReasonRestored), Message: "the settings of " + u.Archived + " were restored in their place",
		Job: m.job.Name, Time: m.now, Retry: m.job.Retry,
	}
}

// unhealthy marks the devices a job leaves unhealthy, with the version that a later job may still restore.
func (m *memory) unhealthy(devices []string, f step.Failure) {
	for _, u := range m.job.Updates {
		if !slices.Contains(devices, u.Device) {
			continue
		}
		from := string(m.job.Record.Target(u.Device, true))
		message := f.Message
		if m.job.Record.Failure != nil {
			message = m.job.Record.Failure.Message + "; " + message
		}
		m.change(u.UniqueID, func(d *journal.Device) {
			d.Unhealthy = &journal.UnhealthyMark{
				Since: m.now, Job: m.job.Name, Message: text.Clip(message, maxMessage), Retry: m.job.Retry,
			}
			d.LastGood = cmp.Or(d.LastGood, from)
		})
	}
}

// failed records the updates that must not be planned again without a person's request. What a person restored stays also where the node
// is held for something that it does not explain.
func (m *memory) failed(f step.Failure) {
	for _, u := range m.job.Updates {
		undone := m.job.Record.Rollback != nil && slices.Contains(m.job.Record.Rollback.Devices, u.Device)
		if u.Archived != "" && u.Desired != nil && verified(m.job.Record, u.Device) && !undone {
			m.change(u.UniqueID, func(d *journal.Device) { d.LastFailure = m.displaced(u) })
		}
	}
	for _, u := range blamed(m.job, f) {
		if u.Archived != "" { // it says nothing about the desired image, which must only wait while a person is needed
			if !f.Held || u.Desired == nil {
				continue
			}
			if u.Desired.Digest == "" {
				m.change(u.UniqueID, func(d *journal.Device) { d.LastFailure = m.displaced(u) })
				continue
			}
			u.Version, u.Digest = u.Desired.Version, u.Desired.Digest
		}
		m.change(u.UniqueID, func(d *journal.Device) { d.LastFailure = failedFirmware(m.job, u, f, m.now) })
	}
	for _, u := range blamedSettings(m.job, f) {
		u.Version, u.Digest = "", u.Configuration
		m.change(u.UniqueID, func(d *journal.Device) { d.SettingsFailure = failedFirmware(m.job, u, f, m.now) })
	}
}

// maxMessage is the maximum length of a message in the API, in bytes.
const maxMessage = 1024

// repeating are the reasons of failures that the records of the device contain already.
var repeating = map[step.Reason]bool{
	step.Quarantined: true, step.DeviceUnhealthy: true, step.AttemptsExhausted: true,
}

// blamed lists the updates that must not be planned again without a person's request: those whose new firmware is at fault.
// Any other failure that holds the node blames all updates that were not verified: otherwise the operator would plan them
// again, and the end of that job would return a node to service that waits for a person.
func blamed(job journal.Job, f step.Failure) []journal.Update {
	held := f.Held || job.Record.Failure != nil && job.Record.Failure.Held
	if (f.Reason.Passing() || repeating[f.Reason]) && !held {
		return nil
	}
	if len(job.Requested) > 0 && !held { // a step says nothing about the image that its device should run
		return nil
	}
	var out []journal.Update
	for _, u := range job.Updates {
		switch {
		case repeating[f.Reason] && u.Device == f.Device:
		case f.Settings && u.Device == f.Device: // it says nothing about the image
		case u.Digest == "": // a step works on a device to which no image is assigned
		case len(f.Blames) > 0:
			if slices.Contains(f.Blames, u.Device) {
				out = append(out, u)
			}
		case !verified(job.Record, u.Device) && (held || f.Reason == step.Cancelled || f.Device == "" || f.Device == u.Device):
			out = append(out, u)
		}
	}
	return out
}

// blamedSettings is blamed for settings. Where the device got firmware too, and which of both is at fault is not known, it is both. What was not
// begun because its firmware could not be flashed is tried again, unless the node is held.
func blamedSettings(job journal.Job, f step.Failure) []journal.Update {
	held := f.Held || job.Record.Failure != nil && job.Record.Failure.Held
	if (f.Reason.Passing() || repeating[f.Reason]) && !held {
		return nil
	}
	var out []journal.Update
	for _, u := range job.Updates {
		alone := u.Digest == "" || f.Settings
		at := u.Device == f.Device
		switch {
		case u.Configuration == "", u.ArchivedSettings, repeating[f.Reason] && at:
		case f.Settings && at:
			out = append(out, u)
		case len(f.Blames) > 0:
			if slices.Contains(f.Blames, u.Device) && (alone || held || told(job.Record, u.Device)) {
				out = append(out, u)
			}
		case !verified(job.Record, u.Device) && (held || alone && (f.Reason == step.Cancelled || f.Device == "" || at)):
			out = append(out, u)
		}
	}
	return out
}

// told reports whether the job began to change settings of the device.
func told(r step.Record, device string) bool {
	return slices.ContainsFunc(r.Steps, func(s step.Step) bool {
		return s.Kind == plan.Configure && s.Device == device && !s.Rollback && s.Attempt > 0
	})
}

func failedFirmware(job journal.Job, u journal.Update, f step.Failure, now time.Time) *journal.Failure {
	message := f.Message
	if f.Device != "" && f.Device != u.Device {
		message = "the job failed at " + f.Device + ": " + message
	}
	return &journal.Failure{
		Version: u.Version, Digest: u.Digest, Reason: string(f.Reason), Message: text.Clip(message, maxMessage), Job: job.Name, Time: now,
		Retry: job.Retry,
	}
}

func verified(r step.Record, device string) bool {
	for _, s := range r.Steps {
		if s.Kind == plan.Verify && s.Device == device && !s.Rollback {
			return s.State == step.Succeeded
		}
	}
	return false
}

// NewRecord is the record of a job with these updates that has not begun.
func NewRecord(steps plan.Catalog, updates []journal.Update) step.Record {
	return newRecord(updates, steps.Steps)
}

// NewBackup is the record of a job that has not begun and reads the firmware of the devices into the archive.
func NewBackup(steps plan.Catalog, devices []journal.Update) step.Record {
	return newRecord(devices, steps.Backup)
}

func newRecord(updates []journal.Update, steps func([]plan.Target) []plan.Step) step.Record {
	var targets []plan.Target
	var wanted []step.Update
	for _, u := range updates {
		targets = append(targets, plan.Target{
			Device: u.Device, Class: u.Class, Driver: u.Driver, Settings: u.Configures(), SettingsOnly: u.Configures() && u.Version == "",
		})
		wanted = append(wanted, step.Update{Device: u.Device, Class: u.Class, Version: inventory.Version(u.Version), Settings: u.Configures()})
	}
	return step.New(steps(targets), wanted...)
}
