package discovery

import (
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/devicename"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Journal is the record of what happened on this node.
type Journal interface {
	// View reads the journal.
	View() (journal.View, error)
}

// records is what the journal knows that is published in the objects of the node.
type records struct {
	// devices holds the last updates of devices by their unique id.
	devices map[string]journal.Device
	// updating holds the unique ids of the devices of the running job.
	updating map[string]bool
	// step is the step that runs now, nil when the node is idle, and device the one that it works on.
	step   *v1alpha1.CurrentStep
	device string
	// held is the failure that keeps the node in maintenance; nil when none does.
	held *status.HeldFacts
	// retry and release are the requests that were in force when that hold began; nil where there is none, or that is not known yet.
	retry, release *string
	// lastError is the last failure, until a later job completes.
	lastError string
	// verdict is the last result of the health gate; nil where it never judged.
	verdict *journal.Verdict
	// writing says that the host is being changed now, so that a scan would disturb it.
	writing bool
	// written is the device that the running step changes; nil when it changes none.
	written *journal.Update
}

func (d *Discovery) records() (records, error) {
	view, err := d.config.Journal.View()
	if err != nil {
		return records{}, fmt.Errorf("read journal: %w", err)
	}
	return recordsOf(view), nil
}

func recordsOf(v journal.View) records {
	r := records{
		devices: v.Devices, step: currentStep(v), lastError: v.LastError(),
		verdict: v.Verdict, updating: map[string]bool{},
	}
	if r.step != nil {
		r.device = v.Active().CurrentStep().Device
	}
	if job := v.Active(); job != nil && job.Record.Outcome == "" {
		for _, u := range job.Updates {
			r.updating[u.UniqueID] = true
		}
		s := job.CurrentStep()
		r.writing = s != nil && s.Writes()
		for _, u := range job.Updates {
			if r.writing && u.Device == s.Device {
				r.written = &u
			}
		}
	}
	if job := v.Held(); job != nil {
		r.retry, r.release = job.Retry, job.Release
		f := job.Record.Failure
		r.held = &status.HeldFacts{
			Job: job.Name, Reason: string(f.Reason), Message: f.Message, Step: string(f.Step), Device: f.Device,
		}
		if job.Record.NeedsIntervention() {
			r.held.NoWayBack = job.Record.Rollback.Failure.Message
		}
	}
	return r
}

// working describes the step that runs, as a sentence.
func (r records) working() string {
	if r.device != "" {
		return "Job " + r.step.Job + " is at step " + r.step.Name + " of " + r.device + "."
	}
	return "Job " + r.step.Job + " is at step " + r.step.Name + "."
}

// verdictFor is what the last health gate found; nil where it never judged. It holds for the boot that it was found under.
func (r records) verdictFor(bootID string) *status.VerdictFacts {
	v := r.verdict
	if v == nil {
		return nil
	}
	return &status.VerdictFacts{
		Healthy: v.Result == journal.Healthy, OtherBoot: v.BootID != bootID, Job: v.Job, Complaints: v.Complaints,
	}
}

// guard keeps a scan from reading a device that is being written. A job journals a step that writes before it reads the
// device for the last time, and a device is read by one reader at a time, so a reading that was allowed ends before the write
// begins. No reading is killed for that, because a tool that dies may leave the device locked.
func (d *Discovery) guard(id inventory.Identity) error {
	view, err := d.config.Journal.View()
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	if u := recordsOf(view).written; u != nil && d.mayBe(id, *u) {
		return busy(*u)
	}
	for _, job := range view.Jobs { // a write continues though its job was given up, or its process ended
		for _, u := range job.Updates {
			if u.Class != id.Class {
				continue
			}
			running, err := d.config.Writes.WriteRunning(u.UniqueID)
			if err != nil {
				return err
			}
			if running && d.mayBe(id, u) {
				return busy(u)
			}
		}
	}
	return nil
}

func busy(u journal.Update) error {
	return fmt.Errorf("%s is being written to; it is read again when that has ended", u.Device)
}

// mayBe reports whether a device as sysfs shows it may be that of an update. Its driver may know it by another id: then it
// is recognised by its place in the last scan, and if that has none, any device of the class may be the one.
func (d *Discovery) mayBe(id inventory.Identity, u journal.Update) bool {
	if id.Class != u.Class || id.UniqueID == u.UniqueID {
		return id.Class == u.Class
	}
	last, _ := d.Snapshot()
	for _, known := range last.Devices {
		if known.Class == u.Class && known.UniqueID == u.UniqueID {
			return devicename.Where(known.Identity) == devicename.Where(id)
		}
	}
	return true
}
