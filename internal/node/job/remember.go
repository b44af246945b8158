package job

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// remember says what a settled step means for the records of devices.
func (x *execution) remember(next journal.Job, a step.Action, bootID string, now time.Time) ([]journal.Device, error) {
	s := next.Record.Steps[a.Step]
	var changed []journal.Device
	switch {
	case a.Failure != nil:
		for _, u := range blamed(next, *a.Failure) {
			changed = append(changed, journal.Device{UniqueID: u.UniqueID, LastFailure: failedFirmware(next, u, *a.Failure, now)})
		}
	case s.Kind == plan.Verify && s.State == step.Succeeded:
		u := x.update(s.Device)
		d := journal.Device{UniqueID: u.UniqueID}
		if touched(next, s.Device) {
			d.LastApplied = &v1alpha1.AppliedFirmware{
				Version: u.Version, Digest: u.Digest, Origin: u.Origin, Job: next.Name, BootID: bootID, Time: metav1.NewTime(now),
			}
		}
		changed = append(changed, d)
	}
	return x.complete(changed)
}

// complete adds to changed records what they say of successes before.
func (x *execution) complete(changed []journal.Device) ([]journal.Device, error) {
	if len(changed) == 0 {
		return nil, nil
	}
	view, err := x.cfg.Journal.View()
	if err != nil {
		return nil, err
	}
	for i := range changed {
		if changed[i].LastApplied == nil {
			changed[i].LastApplied = view.Devices[changed[i].UniqueID].LastApplied
		}
	}
	return changed, nil
}

// passing failures say nothing about an image: the same update may be planned again at once.
var passing = map[step.Reason]bool{
	step.ImageUnavailable: true, step.ReadFailed: true, step.DeviceChanged: true, step.MaintenanceUnavailable: true,
	step.MaintenanceLost: true, step.TimedOut: true,
}

// blamed lists the updates that must not be tried again by themselves. A failure that holds the node blames all that
// were not read back at their target: otherwise the next plan would take up the rest and return a node to service that
// waits for a person.
func blamed(job journal.Job, f step.Failure) []journal.Update {
	held := f.Held || job.Record.Failure != nil && job.Record.Failure.Held
	if passing[f.Reason] && !held {
		return nil
	}
	var out []journal.Update
	for _, u := range job.Updates {
		if !verified(job.Record, u.Device) && (held || f.Reason == step.Cancelled || f.Device == "" || f.Device == u.Device) {
			out = append(out, u)
		}
	}
	return out
}

func failedFirmware(job journal.Job, u journal.Update, f step.Failure, now time.Time) *v1alpha1.FailedFirmware {
	message := f.Message
	if f.Device != "" && f.Device != u.Device {
		message = "the job failed at " + f.Device + ": " + message
	}
	const maxMessage = 1024
	return &v1alpha1.FailedFirmware{
		Version: u.Version, Digest: u.Digest, Reason: string(f.Reason), Message: strings.ToValidUTF8(message[:min(len(message), maxMessage)], ""), Job: job.Name,
		Time: metav1.NewTime(now),
	}
}

func verified(r step.Record, device string) bool {
	for _, s := range r.Steps {
		if s.Kind == plan.Verify && s.Device == device {
			return s.State == step.Succeeded
		}
	}
	return false
}

// touched reports whether the job changed the device.
func touched(job journal.Job, device string) bool {
	for _, s := range job.Record.Steps {
		if s.Device == device && s.Writes() && s.Attempt > 0 {
			return true
		}
	}
	for _, u := range job.Record.Updates {
		if u.Device == device {
			return u.Needs != inventory.ActivateNone
		}
	}
	return false
}
