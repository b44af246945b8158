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

// decide compares wish and reality of one node. A running job is never touched: what differs is planned after it.
func decide(f facts) decision {
	if f.nodeUID == "" {
		return decision{}
	}
	d := decision{forgotten: f.forgotten()}
	queued, busy := f.unfinished()
	if busy {
		return d
	}
	d.updates, d.next = f.wanted(queued)
	for _, j := range queued {
		if !d.queued && len(d.updates) > 0 && sameWork(j.Spec.Updates, d.updates) {
			d.queued = true
			continue
		}
		d.superseded = append(d.superseded, j)
	}
	d.previous = f.previous()
	return d
}

// unfinished lists the jobs of this reconciler that wait for admission, newest first, and reports whether another job
// is queued or runs.
func (f facts) unfinished() (queued []v1alpha1.FirmwareJob, busy bool) {
	for _, j := range slices.Backward(f.jobs) {
		switch {
		case ended(&j) || j.Spec.Type != v1alpha1.JobTypeUpdate:
		case isPlanned(&j) && !isAdmitted(&j) && j.Spec.Cancel == nil && j.DeletionTimestamp == nil:
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
// failed changed, or when a person asked for a retry; that repeats the failed job even where nothing is left to be
// flashed, because only a job returns the node to service.
func (f facts) wanted(queued []v1alpha1.FirmwareJob) (updates []v1alpha1.DeviceUpdate, next time.Duration) {
	due, next := f.due(queued)
	held := f.held()
	if held == nil {
		return due, next
	}
	if !endedAt(held).Before(f.retryAfter) {
		if f.stillWishes(held) {
			return nil, 0
		}
		return due, next
	}
	for i := range f.devices {
		d := &f.devices[i]
		u := updateFor(held, d.Name)
		isListed := slices.ContainsFunc(due, func(u v1alpha1.DeviceUpdate) bool { return u.Device == d.Name })
		if u != nil && !isListed && wishes(d, u) && len(due) < maxUpdates {
			due = append(due, updateOf(d))
		}
	}
	slices.SortFunc(due, func(a, b v1alpha1.DeviceUpdate) int { return cmp.Compare(a.Device, b.Device) })
	return due, next
}

// held is the failed job that holds the node, or nil.
func (f facts) held() *v1alpha1.FirmwareJob {
	for i := len(f.jobs) - 1; i >= 0; i-- {
		if isHeld(&f.jobs[i]) {
			return &f.jobs[i]
		}
	}
	return nil
}

// stillWishes reports whether a device the job failed on is still to get the same image.
func (f facts) stillWishes(held *v1alpha1.FirmwareJob) bool {
	for i := range f.devices {
		d := &f.devices[i]
		if u := updateFor(held, d.Name); u != nil && wishes(d, u) && blames(held, d.Name) {
			return true
		}
	}
	return false
}

// wishes reports whether the device, the very same hardware, is still to get that image.
func wishes(d *v1alpha1.NodeDevice, u *v1alpha1.DeviceUpdate) bool {
	w := d.Spec.Firmware
	return w != nil && w.UpdatePolicy == v1alpha1.UpdatePolicyUpdate && w.Digest == u.Digest && d.Status.UniqueID == u.UniqueID
}

// sameWork ignores where an update comes from and what ran before: an edit that changes neither device, version nor
// image does not cost a job its place in the queue.
func sameWork(a, b []v1alpha1.DeviceUpdate) bool {
	return slices.EqualFunc(a, b, sameUpdate)
}

func sameUpdate(a, b v1alpha1.DeviceUpdate) bool {
	return a.Device == b.Device && a.UniqueID == b.UniqueID && a.Version == b.Version && a.Digest == b.Digest && a.Downgrade == b.Downgrade
}

// forgotten lists the finished jobs beyond the history, oldest first. A job that holds the node is kept.
func (f facts) forgotten() []v1alpha1.FirmwareJob {
	var finished []v1alpha1.FirmwareJob
	for _, j := range f.jobs {
		if ended(&j) && j.DeletionTimestamp == nil {
			finished = append(finished, j)
		}
	}
	surplus := finished[:max(0, len(finished)-maxHistory)]
	return slices.DeleteFunc(slices.Clone(surplus), func(j v1alpha1.FirmwareJob) bool { return isHeld(&j) })
}

// previous is the uid of the node's newest job that is not just queued.
func (f facts) previous() string {
	for _, j := range slices.Backward(f.jobs) {
		if ended(&j) {
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
func fingerprint(updates []v1alpha1.DeviceUpdate) string {
	work := make([]string, 0, 5*len(updates))
	for _, u := range updates {
		work = append(work, u.Device, u.UniqueID, u.Version, string(u.Digest), string(u.Downgrade))
	}
	out, _ := json.Marshal(work) // strings always marshal
	return string(out)
}
