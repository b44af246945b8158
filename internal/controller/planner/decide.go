package planner

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// maxHistory bounds the finished jobs kept for a node.
const maxHistory = 10

// managedBy marks the jobs this reconciler queued; only those are replaced.
const managedBy = "app.kubernetes.io/managed-by"

// decision is what to do about one node.
type decision struct {
	// updates are what a job should do; none when nothing is due or the node is busy.
	updates []v1alpha1.DeviceUpdate
	// rollback is whether that job may begin when it could not be undone.
	rollback v1alpha1.RollbackPolicy
	// queued is set when a job that does exactly that is queued already.
	queued bool
	// superseded jobs are queued, not admitted, and no longer what is wished.
	superseded []v1alpha1.FirmwareJob
	// forgotten jobs are finished and older than the history that is kept.
	forgotten []v1alpha1.FirmwareJob
	// next is how long until another update is due that waits after a failure; 0 when none does.
	next time.Duration
	// previous is the uid of the job before; it makes the name of the next one unique.
	previous string
}

// decide compares wish and reality of one node. A running job is never touched: what differs is planned after it. A job
// of somebody else is waited for too; but what is queued and no longer due goes at once, so that it is not admitted.
func decide(f facts) decision {
	if f.nodeUID == "" {
		return decision{}
	}
	d := decision{forgotten: f.forgotten(), rollback: f.rollback}
	queued, busy := f.unfinished()
	d.updates, d.next = f.wanted(queued)
	for _, j := range queued {
		if !d.queued && len(d.updates) > 0 && sameWork(j.Spec.Updates, d.updates) && sameRollback(j.Spec.Rollback, d.rollback) {
			d.queued = true
			continue
		}
		d.superseded = append(d.superseded, j)
	}
	if busy {
		d.updates, d.next = nil, 0
	}
	d.previous = f.previous()
	return d
}

// unfinished lists the jobs of this reconciler that wait for admission, newest first, and reports whether another job
// is queued or runs.
func (f facts) unfinished() (queued []v1alpha1.FirmwareJob, busy bool) {
	for _, j := range slices.Backward(f.jobs) {
		switch {
		case j.Ended() || j.Spec.Type == v1alpha1.JobTypeScan:
		case isPlanned(&j) && !j.Admitted() && j.Spec.Cancel == nil && j.DeletionTimestamp == nil:
			queued = append(queued, j)
		default:
			busy = true
		}
	}
	return queued, busy
}

// isPlanned reports whether this reconciler queued the job.
func isPlanned(j *v1alpha1.FirmwareJob) bool {
	return j.Labels[managedBy] == v1alpha1.FieldOwnerOperator
}

// wanted lists what a job should do now. A node that a failed job holds gets a new one only when the wish for what
// failed changed and no device was left unhealthy, or when a person asked for a retry; that repeats the failed job even
// where nothing is left to be flashed, because only a job returns the node to service. While the image that failed is
// quarantined a retry does nothing: it must be lifted, or the wish changed, or the node released as it is.
func (f facts) wanted(queued []v1alpha1.FirmwareJob) (updates []v1alpha1.DeviceUpdate, next time.Duration) {
	due, next := f.due(queued)
	held := f.held()
	switch {
	case held == nil && !f.heldSince.IsZero() && !f.heldSince.Before(f.retryAfter): // its job was deleted: what failed is not known
		return nil, 0
	case held == nil:
		return due, next
	}
	if !held.EndedAt().Before(f.retryAfter) {
		if f.stillWishes(held) || slices.ContainsFunc(f.devices, f.isUnhealthy) {
			return nil, 0
		}
		return due, next
	}
	for i := range f.devices {
		d := &f.devices[i]
		u := updateFor(held, d.Name)
		isListed := slices.ContainsFunc(due, func(u v1alpha1.DeviceUpdate) bool { return u.Device == d.Name })
		switch {
		case u == nil || isListed || !wishes(d, u):
		case f.isBad(d, u.Digest) && blames(held, d.Name): // nothing would judge this device before the node is back in service
			return nil, 0
		case !f.isBad(d, u.Digest) && len(due) < maxUpdates:
			due = append(due, f.updateTo(d, u.Version, u.Digest))
		}
	}
	slices.SortFunc(due, func(a, b v1alpha1.DeviceUpdate) int { return cmp.Compare(a.Device, b.Device) })
	return due, next
}

// isUnhealthy reports whether a job left the device unhealthy and no person has forgiven that since.
func (f facts) isUnhealthy(d v1alpha1.NodeDevice) bool {
	return d.Status.Unhealthy != nil && !d.Status.Unhealthy.Since.Time.Before(f.retryAfter)
}

// held is the failed job that holds the node, or nil.
func (f facts) held() *v1alpha1.FirmwareJob {
	for i := len(f.jobs) - 1; i >= 0; i-- {
		if f.jobs[i].Held() {
			return &f.jobs[i]
		}
	}
	return nil
}

// stillWishes reports whether nobody has changed the wish for what the job failed on: a device is still to get the same
// image, or it is gone and its object with it. Steps follow from no wish, so none can change that.
func (f facts) stillWishes(held *v1alpha1.FirmwareJob) bool {
	if held.Spec.Type == v1alpha1.JobTypeSteps {
		return true
	}
	return slices.ContainsFunc(held.Spec.Updates, func(u v1alpha1.DeviceUpdate) bool {
		at := slices.IndexFunc(f.devices, func(d v1alpha1.NodeDevice) bool { return d.Name == u.Device })
		return blames(held, u.Device) && (at < 0 || wishes(&f.devices[at], &u))
	})
}

// wishes reports whether the device, the very same hardware, is still to get that image, as what should run or on the way
// to it.
func wishes(d *v1alpha1.NodeDevice, u *v1alpha1.DeviceUpdate) bool {
	w := d.Spec.Firmware
	return w != nil && w.UpdatePolicy == v1alpha1.UpdatePolicyUpdate && d.Status.UniqueID == u.UniqueID &&
		slices.Contains(wishedImages(d), u.Digest)
}

// wishedImages are the images of the version that should run and of those on the way to it.
func wishedImages(d *v1alpha1.NodeDevice) []v1alpha1.Digest {
	w := d.Spec.Firmware
	if w == nil {
		return nil
	}
	out := []v1alpha1.Digest{w.Digest}
	if w.Path != nil {
		for _, h := range w.Path.Hops {
			out = append(out, h.Digest)
		}
	}
	return out
}

// sameWork ignores where an update comes from: an edit that changes neither device, version nor image does not cost a job
// its place in the queue. That another version runs does: the daemon refuses what was planned over the one before.
func sameWork(a, b []v1alpha1.DeviceUpdate) bool {
	return slices.EqualFunc(a, b, sameUpdate)
}

func sameUpdate(a, b v1alpha1.DeviceUpdate) bool {
	return a.Device == b.Device && a.UniqueID == b.UniqueID && a.FromVersion == b.FromVersion && a.Version == b.Version &&
		a.Digest == b.Digest && a.Downgrade == b.Downgrade
}

// sameRollback takes an absent policy for the default.
func sameRollback(a, b v1alpha1.RollbackPolicy) bool {
	return (a == v1alpha1.RollbackRequired) == (b == v1alpha1.RollbackRequired)
}

// forgotten lists the finished jobs beyond the history, oldest first. A job that holds the node is kept, and one that
// alone knows of a bad image.
func (f facts) forgotten() []v1alpha1.FirmwareJob {
	var finished []v1alpha1.FirmwareJob
	for _, j := range f.jobs {
		if j.Ended() && j.DeletionTimestamp == nil {
			finished = append(finished, j)
		}
	}
	surplus := finished[:max(0, len(finished)-maxHistory)]
	return slices.DeleteFunc(slices.Clone(surplus), func(j v1alpha1.FirmwareJob) bool { return j.Held() || f.isOnlyWitness(&j) })
}

// isOnlyWitness reports whether an image is quarantined because of that job and no source has written it down, such as
// when none holds the image at present.
func (f facts) isOnlyWitness(j *v1alpha1.FirmwareJob) bool {
	return slices.ContainsFunc(j.Status.BadImages, func(b v1alpha1.BadImage) bool {
		e, is := f.bad.Blocks(b.Digest, b.Model)
		written := func(src v1alpha1.FirmwareSource) bool { return slices.Contains(src.Status.Quarantine, e) }
		return is && e.Job == j.Name && !slices.ContainsFunc(f.sources, written)
	})
}

// previous is the uid of the node's newest job that is not just queued.
func (f facts) previous() string {
	for _, j := range slices.Backward(f.jobs) {
		if j.Ended() {
			return string(j.UID)
		}
	}
	return ""
}

// maxNode bounds the part of a job's name that is the node's, so that the whole is a valid name.
const maxNode = 253 - 1 - 8

// jobName is the same for the same work after the same job, so that a stale cache cannot queue it twice.
func jobName(node, previous, fingerprint string) string {
	sum := sha256.Sum256([]byte(previous + "\n" + fingerprint))
	return strings.TrimRight(node[:min(len(node), maxNode)], ".-") + "-" + hex.EncodeToString(sum[:4])
}

// fingerprint tells work from other work.
func fingerprint(updates []v1alpha1.DeviceUpdate, rollback v1alpha1.RollbackPolicy) string {
	work := make([]string, 0, 5*len(updates)+1)
	if rollback == v1alpha1.RollbackRequired {
		work = append(work, string(rollback))
	}
	for _, u := range updates {
		work = append(work, u.Device, u.UniqueID, u.Version, string(u.Digest), string(u.Downgrade))
	}
	out, _ := json.Marshal(work) // strings always marshal
	return string(out)
}
