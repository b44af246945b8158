package due

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// maxUpdates bounds the updates of one job, as the API does, and maxUpdatesSize does in bytes of JSON, so that the job stays under
// 256 KiB with its status. The rest follows in the next job.
const (
	maxUpdates     = 128
	maxUpdatesSize = 64 << 10
)

// due lists the updates of the node that are due now, and how long until another one is that waits after a failure; 0
// when none does. An update that is queued already stays due while its device cannot be read.
func (f Facts) due(queued []v1alpha1.FirmwareJob) (updates []v1alpha1.TaskDevice, next time.Duration) {
	for i := range f.Devices {
		d := &f.Devices[i]
		u, is := f.next(d)
		if !is || !isQueued(u, queued) && (!isObserved(d) || match.Unread(d)) {
			continue
		}
		u, delay := f.without(d, u)
		switch wait := delay.until.Sub(f.Now); {
		case delay.untilAsked:
		case wait > 0:
			next = sooner(next, wait)
		default:
			updates = append(updates, u)
		}
	}
	return updates, next
}

// unqueued lists the updates that the node is to get and that no job of this reconciler does yet, in order: they are about to be queued,
// are refused, or wait after a failure. One that waits for a person is none.
func (f Facts) unqueued(queued []v1alpha1.FirmwareJob) (out []schedule.Edge) {
	if held := f.held(); held != nil && !f.Retry.Clears(held.RetryInForce()) && (f.stillDesires(held) || slices.ContainsFunc(f.Devices, f.isUnhealthy)) {
		return nil
	}
	for i := range f.Devices {
		d := &f.Devices[i]
		u, is := f.next(d)
		if !is || isQueued(u, queued) {
			continue
		}
		u, delay := f.without(d, u)
		if delay.untilAsked {
			continue
		}
		e := schedule.EdgeOfUpdate(&u)
		e.Pinned = IsPinned(u)
		if at, found := slices.BinarySearchFunc(out, e, schedule.Edge.Compare); !found {
			out = slices.Insert(out, at, e)
		}
	}
	return out
}

// choose takes of what is due as much as one job may do, in order of device. Of the drives of one array that is the first one
// only: the next one is planned when that one runs its new firmware and the array is whole. What a held job failed on comes
// first, because nothing else would judge it before the node is back in service; then come the other updates of that job, and
// what is queued already. Where the policy has waves, what pins select goes in a job of its own, and first: it must not wait for the waves
// of the rest. A pin to what is halted waits for a person, so it goes last. On a held node what the held job updated does, because its retry passes waves and halts, and the rest would wait for its own.
func (f Facts) choose(due []v1alpha1.TaskDevice, queued []v1alpha1.FirmwareJob, held *v1alpha1.FirmwareJob) []v1alpha1.TaskDevice {
	const failed, repeated, waiting, others = 0, 1, 2, 3
	rank := func(u v1alpha1.TaskDevice) int {
		switch {
		case held != nil && held.FailedOn(u.Name) && desired.UpdateFor(held, u.Name) != nil:
			return failed
		case held != nil && desired.UpdateFor(held, u.Name) != nil:
			return repeated
		case isQueued(u, queued):
			return waiting
		}
		return others
	}
	byName := func(a, b v1alpha1.TaskDevice) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(due, func(a, b v1alpha1.TaskDevice) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), byName(a, b)) })
	if f.Settings.Waves {
		apart := func(is func(v1alpha1.TaskDevice) bool) {
			if slices.ContainsFunc(due, is) {
				due = slices.DeleteFunc(due, func(u v1alpha1.TaskDevice) bool { return !is(u) })
			}
		}
		if held == nil {
			apart(func(u v1alpha1.TaskDevice) bool { return !IsPinned(u) || !f.isHalted(u) })
			apart(IsPinned)
		} else {
			apart(func(u v1alpha1.TaskDevice) bool { return desired.UpdateFor(held, u.Name) != nil })
		}
	}
	var out []v1alpha1.TaskDevice
	arrays, size := map[string]bool{}, len("]")
	for _, u := range due {
		in, bytes := f.arraysOf(u.Name), v1alpha1.SizeOf(u)+len(",")
		shares := slices.ContainsFunc(in, func(a string) bool { return arrays[a] })
		if shares || len(out) == maxUpdates || size+bytes > maxUpdatesSize {
			continue
		}
		size += bytes
		out = append(out, u)
		for _, a := range in {
			arrays[a] = true
		}
	}
	slices.SortFunc(out, byName)
	return out
}

// arraysOf are the redundant arrays that the device is a member of.
func (f Facts) arraysOf(device string) []string {
	at := slices.IndexFunc(f.Devices, func(d v1alpha1.NodeDevice) bool { return d.Name == device })
	if at < 0 {
		return nil
	}
	return f.Devices[at].Status.Arrays
}

// isObserved reports whether the daemon has seen the device's present spec. A daemon that has not may be down: a job would
// then wait on the node, and keep its place in the budget, without being executed.
func isObserved(d *v1alpha1.NodeDevice) bool { return d.Status.ObservedGeneration >= d.Generation }

// isQueued reports whether exactly that update is queued. Then it keeps its place when an edit only changes where the
// desired firmware comes from, and while a scan cannot read the device.
func isQueued(u v1alpha1.TaskDevice, queued []v1alpha1.FirmwareJob) bool {
	return slices.ContainsFunc(queued, func(j v1alpha1.FirmwareJob) bool {
		q := desired.UpdateFor(&j, u.Name)
		return q != nil && sameUpdate(*q, u)
	})
}

// next is what is to be written to a device by what was last read from it: the desired version, or a hop on the way to it, and the desired
// settings. Firmware may reset settings, so those that are in force go with it; others go with the last hop, which may bring what they name.
//
// The conditions Blocked and Conflict are the decision of package match, carried on the object: they say what depends on
// sources and on other templates, and the index of the fleet that decides it belongs to the template controller, which
// writes them before the assignment they are about. Everything else follows from the facts in the status.
func (f Facts) next(d *v1alpha1.NodeDevice) (u v1alpha1.TaskDevice, is bool) {
	if d.Spec.Firmware == nil && d.Spec.Configuration == nil || d.Status.UniqueID == "" || d.DeletionTimestamp != nil ||
		meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionBlocked) ||
		meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionConflict) {
		return u, false
	}
	decision := plan.Decide(desired.Of(d.Spec.Firmware, f.Retry), match.Facts(d))
	if decision.Outcome.Due() {
		digest := v1alpha1.Digest(decision.Digest.String())
		if !f.isBad(d, digest) && !f.isBad(d, d.Spec.Firmware.Digest) { // a hop to a quarantined version is of no use
			u, is = f.updateTo(d, string(decision.Version), digest), true
		}
	}
	settings, isLast := d.Spec.Configuration.Digest(), is && decision.Version == inventory.NormalizeVersion(d.Spec.Firmware.Version)
	switch standing := desired.StandingOf(d.Spec.Configuration, settings, d.Status.Configuration, f.Retry); {
	case f.isUnhealthy(*d) || f.isBad(d, settings):
	case standing == desired.SettingsDue && !is:
		u, is = settingsOnly(d, settings), true
	case isLast && standing == desired.SettingsDue, is && standing == desired.SettingsInForce && d.Spec.Configuration.Policy == v1alpha1.PolicyApply:
		u.Configuration = settings
	}
	return u, is
}

// settingsOnly changes the settings of a device and not its firmware.
func settingsOnly(d *v1alpha1.NodeDevice, settings v1alpha1.Digest) v1alpha1.TaskDevice {
	return v1alpha1.TaskDevice{
		Name: d.Name, UniqueID: d.Status.UniqueID, Model: cmp.Or(d.Status.ModelKey(), v1alpha1.AnyModel), Configuration: settings,
	}
}

// without is an update without the part that failed before and waits, and how long the whole waits where all of it does.
func (f Facts) without(d *v1alpha1.NodeDevice, u v1alpha1.TaskDevice) (v1alpha1.TaskDevice, retryDelay) {
	if u.Configuration == "" || u.Digest == "" {
		_, digest := u.Target()
		return u, f.retryDelay(d, digest)
	}
	firmware, settings := f.retryDelay(d, u.Digest), f.retryDelay(d, u.Configuration)
	switch {
	case firmware.lets(f.Now) && !settings.lets(f.Now):
		u.Configuration = ""
		return u, firmware
	case !firmware.lets(f.Now) && settings.lets(f.Now) && d.Status.Configuration.State == v1alpha1.ConfigurationOutOfDate:
		return settingsOnly(d, u.Configuration), settings
	}
	return u, firmware
}

// isBad reports whether the image is quarantined for the device's model.
func (f Facts) isBad(d *v1alpha1.NodeDevice, image v1alpha1.Digest) bool {
	_, bad := f.Bad.Blocks(image, d.Status.ModelKey(), f.Settings.Pool)
	return bad
}

// isHalted reports whether the policy has halted what the update flashes.
func (f Facts) isHalted(u v1alpha1.TaskDevice) bool {
	return slices.Contains(f.Settings.Halted, schedule.EdgeOfUpdate(&u).Target)
}

// IsPinned reports whether a pin selects the update.
func IsPinned(u v1alpha1.TaskDevice) bool { return u.Origin == v1alpha1.OriginPin }

func (f Facts) updateTo(d *v1alpha1.NodeDevice, version string, image v1alpha1.Digest) v1alpha1.TaskDevice {
	u := v1alpha1.TaskDevice{
		Name: d.Name, UniqueID: d.Status.UniqueID, Version: version, Digest: image,
		Model: cmp.Or(d.Status.ModelKey(), v1alpha1.AnyModel),
	}
	u.RollbackDigest, u.RollbackSource = f.rollbackImage(d)
	if d.Status.Firmware != nil {
		u.FromVersion = d.Status.Firmware.Running
	}
	if by := v1alpha1.AssignedBy(d.Spec.Origin); by != nil && by.Kind == v1alpha1.OriginPin {
		u.Origin = v1alpha1.OriginPin
	}
	return u
}

// retryDelay is how long an image is not tried again on a device on which it failed.
type retryDelay struct {
	// untilAsked: until the desired firmware changes or a person requests a retry.
	untilAsked bool
	// until is the end of the wait after passing failures.
	until time.Time
}

// lets reports whether it may be tried now.
func (r retryDelay) lets(now time.Time) bool { return !r.untilAsked && !r.until.After(now) }

const (
	firstRetry = 30 * time.Second
	lastRetry  = 30 * time.Minute
)

// retryDelay looks at the kept jobs that failed on that image for the device since the last retry that a person requested.
func (f Facts) retryDelay(d *v1alpha1.NodeDevice, image v1alpha1.Digest) retryDelay {
	var delay retryDelay
	for failures, j := range desired.Failures(f.Jobs, f.Retry, d, image) {
		if j.Held() || j.Blames(d.Name) || !isPassing(j) {
			return retryDelay{untilAsked: true}
		}
		delay.until = f.Failed[j.UID].Add(RetryPause(failures))
	}
	return delay
}

// RetryPause is how long a device is left alone after a passing failure that follows on that many others.
func RetryPause(failures int) time.Duration {
	const doublings = 6 // from firstRetry to lastRetry
	return min(firstRetry<<min(failures, doublings), lastRetry)
}

// isPassing reports whether the job failed for a reason that says nothing about an image, so that trying again by itself is
// right, but with growing pauses. NoRunner is the operator's own reason: no node ever took up the job.
func isPassing(j *v1alpha1.FirmwareJob) bool {
	reason := j.FailureReason()
	return reason == v1alpha1.ReasonNoRunner || step.Reason(reason).Passing()
}
