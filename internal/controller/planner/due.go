package planner

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// maxUpdates bounds the updates of one job, as the API does; the rest follows in the next one.
const maxUpdates = 128

// due lists the updates of the node that are due now, and how long until another one is that waits after a failure; 0
// when none does. What is queued tells what was due before.
func (f facts) due(queued []v1alpha1.FirmwareJob) (updates []v1alpha1.DeviceUpdate, next time.Duration) {
	for i := range f.devices {
		d := &f.devices[i]
		known := isQueued(d, queued)
		if !known && !isObserved(d) || !f.isDue(d, known) {
			continue
		}
		q := f.quarantine(d)
		switch wait := q.until.Sub(f.now); {
		case q.untilAsked:
		case wait > 0 && (next == 0 || wait < next):
			next = wait
		case wait <= 0 && len(updates) < maxUpdates:
			updates = append(updates, updateOf(d))
		}
	}
	return updates, next
}

// isObserved reports whether the daemon has judged this very wish: it alone knows the order of versions and what a
// driver can write.
func isObserved(d *v1alpha1.NodeDevice) bool { return d.Status.ObservedGeneration >= d.Generation }

// isQueued reports whether exactly the device's wish is queued. Then it keeps its place when an edit only changes where
// the wish comes from, and while a scan cannot read the device.
func isQueued(d *v1alpha1.NodeDevice, queued []v1alpha1.FirmwareJob) bool {
	return slices.ContainsFunc(queued, func(j v1alpha1.FirmwareJob) bool {
		u := updateFor(&j, d.Name)
		return u != nil && sameUpdate(*u, updateOf(d))
	})
}

// isDue asks package plan, and the daemon's verdict where the API objects say too little.
func (f facts) isDue(d *v1alpha1.NodeDevice, queued bool) bool {
	conditions := d.Status.Conditions
	if d.Spec.Firmware == nil || d.Status.UniqueID == "" || d.DeletionTimestamp != nil ||
		meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionBlocked) ||
		meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionConflict) {
		return false
	}
	observed := factsOf(d)
	if queued {
		observed.Unreadable = ""
	}
	if !plan.Decide(f.wish(d), observed).Outcome.Due() {
		return false
	}
	switch ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); {
	case ready == nil:
		return false
	case ready.Reason == v1alpha1.ReasonDowngradeForbidden, ready.Reason == v1alpha1.ReasonNotUpdatable, ready.Reason == v1alpha1.ReasonPowerCycleRequired:
		return false
	}
	return true
}

func (f facts) wish(d *v1alpha1.NodeDevice) plan.Wish {
	w := d.Spec.Firmware
	digest, _ := inventory.ParseDigest(string(w.Digest)) // an absent digest is the zero one
	return plan.Wish{
		Version: inventory.Version(w.Version), Digest: digest, RetryAfter: f.retryAfter,
		ReportOnly: w.UpdatePolicy != v1alpha1.UpdatePolicyUpdate, AllowDowngrade: w.Downgrade == v1alpha1.DowngradeAllow,
	}
}

func factsOf(d *v1alpha1.NodeDevice) plan.Facts {
	var out plan.Facts
	if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionInspected); c != nil && c.Reason == v1alpha1.ReasonReadFailed {
		out.Unreadable = c.Message
	}
	if fw := d.Status.Firmware; fw != nil {
		out.Driver = fw.Driver
		out.Running, out.Stored = inventory.Version(fw.Running), inventory.Version(fw.Stored)
		if fw.Activation == v1alpha1.ActivationPowerCycle {
			out.Activation = inventory.ActivatePowerCycle
		}
	}
	if failed := d.Status.LastFailure; failed != nil {
		out.FailedDigest, _ = inventory.ParseDigest(string(failed.Digest))
		out.FailedAt = failed.Time.Time
	}
	return out
}

// quarantine is how long an image is not tried again on a device.
type quarantine struct {
	// untilAsked: until the wish changes or a person asks for a retry.
	untilAsked bool
	// until is the end of the wait after failures that say nothing about the image.
	until time.Time
}

// passing are the reasons of failures that say nothing about an image. Trying again by itself is right, but ever slower.
var passing = []string{
	v1alpha1.ReasonImageUnavailable, v1alpha1.ReasonReadFailed, v1alpha1.ReasonDeviceChanged, v1alpha1.ReasonMaintenanceUnavailable,
	v1alpha1.ReasonMaintenanceLost, v1alpha1.ReasonTimedOut,
}

const (
	firstRetry = 30 * time.Second
	lastRetry  = 30 * time.Minute
)

// quarantine looks at the kept jobs that failed on the device's wished image since the last retry a person asked for. It
// holds where a failure left no trace on the device, such as for a node that became unhealthy.
func (f facts) quarantine(d *v1alpha1.NodeDevice) quarantine {
	var q quarantine
	failures := 0
	for i := range f.jobs {
		j := &f.jobs[i]
		if !hasFailed(j) || endedAt(j).Before(f.retryAfter) || succeededSince(f.jobs[i+1:], d) {
			continue
		}
		u := updateFor(j, d.Name)
		if u == nil || u.Digest != d.Spec.Firmware.Digest || u.UniqueID != d.Status.UniqueID || !blames(j, d.Name) {
			continue
		}
		if isHeld(j) || !slices.Contains(passing, failureReason(j)) {
			return quarantine{untilAsked: true}
		}
		q.until = endedAt(j).Add(min(firstRetry<<failures, lastRetry))
		failures++
	}
	return q
}

func failureReason(j *v1alpha1.FirmwareJob) string {
	if c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionFailed); c != nil {
		return c.Reason
	}
	return ""
}

// succeededSince reports whether a later job brought the device's wished image to run, so that older failures are history.
func succeededSince(later []v1alpha1.FirmwareJob, d *v1alpha1.NodeDevice) bool {
	return slices.ContainsFunc(later, func(j v1alpha1.FirmwareJob) bool {
		at := updateFor(&j, d.Name)
		return at != nil && at.Digest == d.Spec.Firmware.Digest && ended(&j) && !hasFailed(&j)
	})
}

// blames reports whether a failed job failed because of the device: a step on it failed, or one of the whole node.
func blames(j *v1alpha1.FirmwareJob, device string) bool {
	if failureReason(j) == v1alpha1.ReasonNodeGone {
		return false
	}
	onDevices := false
	for _, s := range j.Status.Steps {
		if s.State != v1alpha1.StepFailed {
			continue
		}
		if s.Device == "" || s.Device == device {
			return true
		}
		onDevices = true
	}
	return !onDevices
}

func updateFor(j *v1alpha1.FirmwareJob, device string) *v1alpha1.DeviceUpdate {
	at := slices.IndexFunc(j.Spec.Updates, func(u v1alpha1.DeviceUpdate) bool { return u.Device == device })
	if at < 0 {
		return nil
	}
	return &j.Spec.Updates[at]
}

func updateOf(d *v1alpha1.NodeDevice) v1alpha1.DeviceUpdate {
	w := d.Spec.Firmware
	u := v1alpha1.DeviceUpdate{
		Device: d.Name, UniqueID: d.Status.UniqueID, Version: w.Version, Digest: w.Digest, Downgrade: w.Downgrade, Origin: w.Origin,
	}
	if d.Status.Firmware != nil {
		u.FromVersion = d.Status.Firmware.Running
	}
	return u
}
