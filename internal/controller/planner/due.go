package planner

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// maxUpdates bounds the updates of one job, as the API does; the rest follows in the next one.
const maxUpdates = 128

// due lists the updates of the node that are due now, and how long until another one is that waits after a failure; 0
// when none does. What is queued tells what was due before.
func (f facts) due(queued []v1alpha1.FirmwareJob) (updates []v1alpha1.DeviceUpdate, next time.Duration) {
	for i := range f.devices {
		d := &f.devices[i]
		u, is := f.next(d)
		if !is || !isQueued(u, queued) && (!isObserved(d) || match.Facts(d).Unreadable != "") {
			continue
		}
		s := f.setback(d, u.Digest)
		switch wait := s.until.Sub(f.now); {
		case s.untilAsked:
		case wait > 0 && (next == 0 || wait < next):
			next = wait
		case wait <= 0 && len(updates) < maxUpdates:
			updates = append(updates, u)
		}
	}
	return updates, next
}

// isObserved reports whether the daemon has judged this very wish: it alone knows the order of versions and what a
// driver can write.
func isObserved(d *v1alpha1.NodeDevice) bool { return d.Status.ObservedGeneration >= d.Generation }

// isQueued reports whether exactly that update is queued. Then it keeps its place when an edit only changes where the
// wish comes from, and while a scan cannot read the device.
func isQueued(u v1alpha1.DeviceUpdate, queued []v1alpha1.FirmwareJob) bool {
	return slices.ContainsFunc(queued, func(j v1alpha1.FirmwareJob) bool {
		q := updateFor(&j, u.Device)
		return q != nil && sameUpdate(*q, u)
	})
}

// next is what is to be flashed to a device as far as it was ever read: the wished version, or one on the way to it. It
// asks package plan, and the daemon's verdict where the API objects say too little.
func (f facts) next(d *v1alpha1.NodeDevice) (u v1alpha1.DeviceUpdate, is bool) {
	conditions := d.Status.Conditions
	if d.Spec.Firmware == nil || d.Status.UniqueID == "" || d.DeletionTimestamp != nil ||
		meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionBlocked) ||
		meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionConflict) {
		return u, false
	}
	facts := match.Facts(d)
	facts.Unreadable = ""
	decision := plan.Decide(desired.Wish(d.Spec.Firmware, f.retryAfter), facts)
	if !decision.Outcome.Due() {
		return u, false
	}
	switch ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); {
	case ready == nil:
		return u, false
	case ready.Reason == v1alpha1.ReasonDowngradeForbidden, ready.Reason == v1alpha1.ReasonNotUpdatable, ready.Reason == v1alpha1.ReasonPowerCycleRequired:
		return u, false
	}
	digest := v1alpha1.Digest(decision.Digest.String())
	if f.isBad(d, digest) || f.isBad(d, d.Spec.Firmware.Digest) { // a version on the way is no use where it leads to a bad one
		return u, false
	}
	return f.updateTo(d, string(decision.Version), digest), true
}

// isBad reports whether the image is quarantined for the device's model.
func (f facts) isBad(d *v1alpha1.NodeDevice, image v1alpha1.Digest) bool {
	_, bad := f.bad.Blocks(image, quarantine.ModelOf(d))
	return bad
}

func updateFor(j *v1alpha1.FirmwareJob, device string) *v1alpha1.DeviceUpdate {
	at := slices.IndexFunc(j.Spec.Updates, func(u v1alpha1.DeviceUpdate) bool { return u.Device == device })
	if at < 0 {
		return nil
	}
	return &j.Spec.Updates[at]
}

func (f facts) updateTo(d *v1alpha1.NodeDevice, version string, image v1alpha1.Digest) v1alpha1.DeviceUpdate {
	w := d.Spec.Firmware
	u := v1alpha1.DeviceUpdate{
		Device: d.Name, UniqueID: d.Status.UniqueID, Version: version, Digest: image, Downgrade: w.Downgrade, Origin: w.Origin,
		RollbackDigest: f.rollbackImage(d),
	}
	if d.Status.Firmware != nil {
		u.FromVersion = d.Status.Firmware.Running
	}
	return u
}
