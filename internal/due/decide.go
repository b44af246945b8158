package due

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// MaxHistory bounds the finished jobs of each type that are kept for a node.
const MaxHistory = 10

// Facts are what is known of one node and of what it has in common with others.
type Facts struct {
	// Name of the node; Now is the clock of the operator.
	Name string
	Now  time.Time
	// NodeUID is empty when there is no such Node.
	NodeUID types.UID
	// Retry is the request to retry; empty when there is none. Answered is the one that the daemon has answered.
	Retry    plan.Clearance
	Answered string
	// HeldBy is the failed job that holds the node as the daemon reports it, even one that was deleted; empty when none does.
	HeldBy string
	// Devices are in order of name.
	Devices []v1alpha1.NodeDevice
	// Jobs are oldest first: those of the planner by their turn, whatever clocks say, and those of persons between them by age.
	Jobs []v1alpha1.FirmwareJob
	// Failed is when this process first saw each failed job, by its clock.
	Failed map[types.UID]time.Time
	// Settings are what the node's RolloutPolicy says about how its jobs run.
	Settings schedule.Settings
	// Sources must not be changed.
	Sources []v1alpha1.FirmwareSource
	// Quarantines must not be changed; Bad is what follows from them and from what jobs report.
	Quarantines []v1alpha1.FirmwareQuarantine
	Bad         quarantine.Set
	// Seen is since when the work has been due that was due when the node was last planned, by its fingerprint, and QuietPeriod how
	// long work must stay the same before it is queued.
	Seen        map[string]time.Time
	QuietPeriod time.Duration
}

// Decision is what follows for the node.
type Decision struct {
	// Job is to be queued now; nil when there is nothing to queue, or when that must wait.
	Job *v1alpha1.FirmwareJob
	// Superseded jobs are queued, not admitted, and no longer what is due.
	Superseded []v1alpha1.FirmwareJob
	// Aborted says that the policy of the node is aborted.
	Aborted bool
	// Expired jobs are finished and older than the history that is kept.
	Expired []v1alpha1.FirmwareJob
	// Unqueued are the updates that the node is to get and that no job does yet, in order.
	Unqueued []schedule.Edge
	// Due is the fingerprint of the work that a job should do; empty when there is none. It is different for different work.
	Due []string
	// Next is how long until the node must be looked at again though nothing changes; 0 for never.
	Next time.Duration
}

// Decide compares what the devices of one node should run with what they run. A running job is never touched: what still
// differs is planned after it. Somebody else's job is waited for too. A queued job that is no longer due is deleted at
// once, so that it is not admitted; so is every one where the policy of the node is aborted. A new job is queued once the same work
// has been due for the quiet period.
func Decide(f Facts) Decision {
	if f.NodeUID == "" {
		return Decision{}
	}
	d := Decision{Expired: f.expired(), Aborted: f.Settings.Aborted}
	queued, leaving, busy := f.unfinished()
	updates, next := f.updates(queued)
	if d.Aborted {
		updates, next = nil, 0
	} else {
		d.Unqueued = f.unqueued(queued)
	}
	isQueued := false
	for _, j := range queued {
		if !isQueued && len(updates) > 0 && sameWork(j.Spec.Task.Devices, updates) && sameTerms(&j.Spec.Task, f.Settings) &&
			ptr.Equal(j.Spec.Task.Request, f.Retry.InForce()) && // under an older request its failure would be cleared by one made before it
			j.Spec.Task.Follows == f.holder() { // it would take no other node over
			isQueued = true
			continue
		}
		d.Superseded = append(d.Superseded, j)
	}
	if busy {
		return d
	}
	d.Next = next
	if len(updates) == 0 {
		return d
	}
	due := fingerprint(updates, f.Settings)
	d.Due = []string{due}
	since, known := f.Seen[due]
	if !known {
		since = f.Now
	}
	switch left := f.QuietPeriod - f.Now.Sub(since); {
	case isQueued:
	case left > 0:
		d.Next = sooner(left, next)
	case len(d.Superseded) == 0 && !leaving: // otherwise the deletion wakes this node again
		d.Job = f.job(updates, due)
	}
	return d
}

// sooner is the shorter of two waits; 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// job is the job that makes the updates.
func (f Facts) job(updates []v1alpha1.TaskDevice, fingerprint string) *v1alpha1.FirmwareJob {
	return &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{
			Name:   JobName(f.Name, f.previous(), fingerprint),
			Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldOwnerOperator},
			// An admitted job must have it. To have it from the first saves the admission a write.
			Finalizers: []string{v1alpha1.JobFinalizer},
		},
		Spec: v1alpha1.FirmwareJobSpec{
			NodeName: f.Name,
			Task: v1alpha1.JobTask{
				Type: v1alpha1.JobTypeUpdate, Devices: updates, Require: f.Settings.Require, HealthyFor: f.Settings.HealthyFor,
				Request: f.Retry.InForce(), Follows: f.holder(), Turn: f.turn(),
			},
		},
	}
}

// unfinished lists the jobs of this reconciler that wait for admission, newest first, and reports whether such a job is being
// deleted, and whether another job is queued or runs.
func (f Facts) unfinished() (queued []v1alpha1.FirmwareJob, leaving, busy bool) {
	for _, j := range slices.Backward(f.Jobs) {
		switch {
		case j.Ended():
		case IsPlanned(&j) && !j.Admitted() && j.DeletionTimestamp != nil: // no node begins it
			leaving = true
		case IsPlanned(&j) && !j.Admitted() && j.Spec.Cancel == nil:
			queued = append(queued, j)
		default:
			busy = true
		}
	}
	return queued, leaving, busy
}

// IsPlanned reports whether this reconciler queued the job.
func IsPlanned(j *v1alpha1.FirmwareJob) bool {
	return j.Labels[v1alpha1.ManagedByLabel] == v1alpha1.FieldOwnerOperator
}

// updates lists what a job should do now, and how long until another update is due that waits after a failure. A node that
// a failed job holds gets a new job only when the desired firmware of what failed has changed and no device was left
// unhealthy, or when a person requested a retry. A retry repeats the failed job even where nothing is left to be flashed,
// because only a job returns the node to service. While the daemon would refuse what failed, or its image is quarantined, a
// retry does nothing: that must change, or the desired firmware, or the node be released as it is. A retry that failed before
// it took the node over waits like any other update.
func (f Facts) updates(queued []v1alpha1.FirmwareJob) (updates []v1alpha1.TaskDevice, next time.Duration) {
	due, next := f.due(queued)
	held := f.held()
	switch {
	case held == nil && f.HeldBy != "" && !f.Retry.Clears(&f.Answered): // its job was deleted: what failed is not known
		return nil, 0
	case held == nil:
		return f.choose(due, queued, nil), next
	}
	if !f.Retry.Clears(held.RetryInForce()) {
		if f.stillDesires(held) || slices.ContainsFunc(f.Devices, f.isUnhealthy) {
			return nil, 0
		}
		return f.choose(due, queued, held), next
	}
	for i := range f.Devices {
		d := &f.Devices[i]
		u := desired.UpdateFor(held, d.Name)
		isListed := slices.ContainsFunc(due, func(u v1alpha1.TaskDevice) bool { return u.Name == d.Name })
		if u == nil || isListed || !desired.Wants(d, u) {
			continue
		}
		_, digest := u.Target()
		delay := f.retryDelay(d, digest)
		wait := max(delay.until.Sub(f.Now), 0)
		switch may := !delay.untilAsked && wait == 0 && f.mayRepeat(d, u); {
		case !may && held.FailedOn(d.Name): // nothing would judge this device before the node is back in service
			return nil, sooner(next, wait)
		case !may:
			next = sooner(next, wait)
		default:
			due = append(due, f.again(d, u))
		}
	}
	return f.choose(due, queued, held), next
}

// again is the update of a held job, as it is for the device now.
func (f Facts) again(d *v1alpha1.NodeDevice, u *v1alpha1.TaskDevice) v1alpha1.TaskDevice {
	if u.SettingsOnly() {
		return settingsOnly(d, u.Configuration)
	}
	out := f.updateTo(d, u.Version, u.Digest)
	if u.Configuration == d.Spec.Configuration.Digest() {
		out.Configuration = u.Configuration
	}
	return out
}

// mayRepeat reports whether the daemon would accept the update of a held job once more: its device runs the version, so that
// the node is only judged again, or the update is what is to be flashed now.
func (f Facts) mayRepeat(d *v1alpha1.NodeDevice, u *v1alpha1.TaskDevice) bool {
	if slices.ContainsFunc(u.Contents(), func(c v1alpha1.Digest) bool { return f.isBad(d, c) }) {
		return false
	}
	if u.SettingsOnly() { // it is judged again, or its settings are to be changed now
		now, is := f.next(d)
		inForce := desired.StandingOf(d.Spec.Configuration, u.Configuration, d.Status.Configuration, f.Retry) == desired.SettingsInForce
		return inForce || is && now.Configuration == u.Configuration
	}
	if o := d.Status.Firmware; o != nil && inventory.NormalizeVersion(o.Running) == inventory.NormalizeVersion(u.Version) {
		return true
	}
	now, is := f.next(d)
	return is && now.Digest == u.Digest && inventory.NormalizeVersion(now.Version) == inventory.NormalizeVersion(u.Version)
}

// isUnhealthy reports whether a job left the device unhealthy and no person has cleared that since.
func (f Facts) isUnhealthy(d v1alpha1.NodeDevice) bool {
	return d.Status.IsUnhealthy() && !f.Retry.Clears(&d.Status.Failure.Request)
}

// held is the failed job that holds the node, or nil: of several, because one that was taken over may not say so yet, the one that the
// node reports.
func (f Facts) held() (held *v1alpha1.FirmwareJob) {
	for i := range f.Jobs {
		if f.Jobs[i].Held() && (held == nil || held.Name != f.HeldBy) {
			held = &f.Jobs[i]
		}
	}
	return held
}

// holder is the name of the failed job that holds the node, even of one that was deleted; empty when none does.
func (f Facts) holder() string {
	if held := f.held(); held != nil {
		return held.Name
	}
	return f.HeldBy
}

// turn is that of the next job.
func (f Facts) turn() int64 {
	turn := int64(1)
	for i := range f.Jobs {
		turn = max(turn, f.Jobs[i].Spec.Task.Turn+1)
	}
	return turn
}

// stillDesires reports whether the desired firmware of what the job failed on has not changed: a device is still to get the
// same image, or the device is gone and its object with it. What a person requested, steps or a restore, follows from no desired
// firmware, so a change of it does not matter to that.
func (f Facts) stillDesires(held *v1alpha1.FirmwareJob) bool {
	if held.Spec.Task.Type != v1alpha1.JobTypeUpdate {
		return true
	}
	return slices.ContainsFunc(held.Spec.Task.Devices, func(u v1alpha1.TaskDevice) bool {
		at := slices.IndexFunc(f.Devices, func(d v1alpha1.NodeDevice) bool { return d.Name == u.Name })
		return held.FailedOn(u.Name) && (at < 0 || desired.Wants(&f.Devices[at], &u))
	})
}

// sameWork ignores which template an update comes from: an edit that changes neither device, version nor image does not cost a job
// its place in the queue. A pin does, because it passes waves. A change of the running version does: the daemon refuses an update that was planned over another.
func sameWork(a, b []v1alpha1.TaskDevice) bool {
	return slices.EqualFunc(a, b, sameUpdate)
}

func sameUpdate(a, b v1alpha1.TaskDevice) bool {
	return a.Name == b.Name && a.UniqueID == b.UniqueID && a.FromVersion == b.FromVersion && a.Version == b.Version &&
		a.Digest == b.Digest && a.Configuration == b.Configuration && IsPinned(a) == IsPinned(b)
}

// sameTerms reports whether a job may begin under the conditions that the node's policy sets now.
func sameTerms(a *v1alpha1.JobTask, b schedule.Settings) bool {
	return slices.Equal(slices.Sorted(slices.Values(a.Require)), b.Require)
}

// expired lists the finished jobs beyond the history of their type, newest first: steps do not displace the updates by whose failures
// the planner waits. A job that holds the node is kept, and so is the only one
// that reports a bad image.
func (f Facts) expired() []v1alpha1.FirmwareJob {
	var out []v1alpha1.FirmwareJob
	finished := map[v1alpha1.JobType]int{}
	for _, j := range slices.Backward(f.Jobs) {
		if !j.Ended() || j.DeletionTimestamp != nil {
			continue
		}
		if finished[j.Spec.Task.Type]++; finished[j.Spec.Task.Type] > MaxHistory && !j.Held() && !f.isOnlyReport(&j) {
			out = append(out, j)
		}
	}
	return out
}

// isOnlyReport reports whether the job reports a bad image and no quarantine remembers that.
func (f Facts) isOnlyReport(j *v1alpha1.FirmwareJob) bool {
	return len(j.Status.Blamed) > 0 && !quarantine.Recorded(j, f.Quarantines)
}

// previous is the uid of the node's newest finished job.
func (f Facts) previous() string {
	for _, j := range slices.Backward(f.Jobs) {
		if j.Ended() {
			return string(j.UID)
		}
	}
	return ""
}

// maxNode bounds the part of a job's name that is the node's, so that the whole is a valid name.
const maxNode = 253 - 1 - 8

// JobName is the same for the same work after the same job, so that a stale cache cannot queue it twice.
func JobName(node, previous, fingerprint string) string {
	sum := sha256.Sum256([]byte(previous + "\n" + fingerprint))
	return strings.TrimRight(node[:min(len(node), maxNode)], ".-") + "-" + hex.EncodeToString(sum[:4])
}

// fingerprint is the same for the same work and different for different work.
func fingerprint(updates []v1alpha1.TaskDevice, terms schedule.Settings) string {
	work := make([]string, 0, 5*len(updates)+len(terms.Require))
	for _, r := range terms.Require {
		work = append(work, string(r))
	}
	for _, u := range updates {
		work = append(work, u.Name, u.UniqueID, u.Version, string(u.Digest), string(u.Configuration))
	}
	out, _ := json.Marshal(work) // strings always marshal
	return string(out)
}

// rollbackImage is an image of the running version, with which a rollback can bring that version back, and the source that holds it: the one
// that was flashed last, or else the only one for the device in any source that is ready. Both are "" when there is none or several, and it is
// never one that is quarantined.
func (f Facts) rollbackImage(d *v1alpha1.NodeDevice) (digest v1alpha1.Digest, source string) {
	if d.Status.Firmware == nil || d.Status.Firmware.Running == "" {
		return "", ""
	}
	running := inventory.NormalizeVersion(d.Status.Firmware.Running)
	if last := d.Status.Applied; last != nil && last.Digest != "" {
		if source := f.holds(d, running, last.Digest); source != "" {
			return last.Digest, source
		}
	}
	var images []match.Image
	for i := range f.Sources {
		images = append(images, f.imagesIn(&f.Sources[i], d, running)...)
	}
	if digest, _ = match.Resolve(images, match.DeviceOf(d), running); digest == "" {
		return "", ""
	}
	return digest, f.holds(d, running, digest)
}

// holds names a source with that image for the device; empty for none.
func (f Facts) holds(d *v1alpha1.NodeDevice, version inventory.Version, digest v1alpha1.Digest) string {
	is := func(i match.Image) bool { return i.Digest == digest && i.For(match.DeviceOf(d), version) }
	for i := range f.Sources {
		if slices.ContainsFunc(f.imagesIn(&f.Sources[i], d, version), is) {
			return f.Sources[i].Name
		}
	}
	return ""
}

// imagesIn are the images of a version in a source that may be for the device. An image that names neither model nor board is taken only
// from the device's own source.
func (f Facts) imagesIn(src *v1alpha1.FirmwareSource, d *v1alpha1.NodeDevice, version inventory.Version) []match.Image {
	if !isReady(src) {
		return nil
	}
	var out []match.Image
	own := d.Spec.SourceName() == src.Name
	for _, image := range src.Status.Images {
		fits := image.Class == d.Status.Class && inventory.NormalizeVersion(image.Version) == version
		isSpecific := len(image.Models) > 0 || len(image.BoardIDs) > 0
		if fits && (own || isSpecific) && !f.isBad(d, image.Digest) {
			out = append(out, match.NewImage(image))
		}
	}
	return out
}

func isReady(src *v1alpha1.FirmwareSource) bool {
	return src.DeletionTimestamp == nil && src.Status.ObservedGeneration == src.Generation &&
		meta.IsStatusConditionTrue(src.Status.Conditions, v1alpha1.ConditionReady)
}
