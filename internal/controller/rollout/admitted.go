package rollout

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// admitted is the Admitted condition of a job as this process last wrote it. It counts until the cache has seen that
// write, so that no pass repeats it.
type admitted struct {
	version string
	status  metav1.ConditionStatus
	reason  string
	message string
}

// outcome is what came of a write.
type outcome int

const (
	failed outcome = iota
	written
	// gone: there is no such job any more.
	gone
	// outdated: the job was changed meanwhile, or is another one of that name. The change may be one that starts no pass.
	outdated
)

// writeAdmitted writes the Admitted condition of one job. One that is admitted is protected first. Every write is a compare-and-swap
// with the version that the decision was made about, or the one this process wrote since; one that was admitted since is told nothing
// else.
func (r *Reconciler) writeAdmitted(ctx context.Context, t telling) (outcome, error) {
	j, want := t.job, t.want
	if r.isWritten(j, want) {
		return written, nil
	}
	conditions := status.Merge(j.Status.Conditions, j.Generation, r.now(), []string{v1alpha1.ConditionAdmitted}, want)
	version := j.ResourceVersion
	if last, ok := r.lastWritten(j); ok {
		if last.status == metav1.ConditionTrue {
			return outdated, nil
		}
		version = last.version
	}
	var err error
	if want.Status == metav1.ConditionTrue {
		version, err = fieldset.ProtectJob(ctx, r.client, j, version)
	}
	if err == nil {
		version, err = fieldset.ApplyAdmission(ctx, r.client, j, version, conditions)
	}
	switch {
	case apierrors.IsNotFound(err):
		return gone, nil
	case apierrors.IsConflict(err):
		return outdated, nil
	case err != nil:
		return failed, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written[j.UID] = admitted{version: version, status: want.Status, reason: want.Reason, message: want.Message}
	return written, nil
}

func (r *Reconciler) lastWritten(j *v1alpha1.FirmwareJob) (admitted, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.written[j.UID]
	return last, ok
}

// isWritten reports whether the job's Admitted condition says already what it should. The message counts, because it
// names what a person has to look at. It must be the same in every pass that finds the same: no counts, no positions.
func (r *Reconciler) isWritten(j *v1alpha1.FirmwareJob, want status.Condition) bool {
	if last, ok := r.lastWritten(j); ok {
		return last == admitted{version: last.version, status: want.Status, reason: want.Reason, message: want.Message}
	}
	c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionAdmitted)
	return c != nil && c.Status == want.Status && c.Reason == want.Reason && c.Message == want.Message
}

// isUntold reports whether the job has no Admitted condition.
func (r *Reconciler) isUntold(j *v1alpha1.FirmwareJob) bool {
	_, told := r.lastWritten(j)
	return !told && meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionAdmitted) == nil
}

// state is where a job stands, by the cache or by what this process wrote since.
func (r *Reconciler) state(j *v1alpha1.FirmwareJob) schedule.JobState {
	s := stateOf(j)
	if last, ok := r.lastWritten(j); ok && (s == schedule.Queued || s == schedule.Cancelled) && last.status == metav1.ConditionTrue {
		return schedule.Admitted
	}
	return s
}

// dropSeen forgets the writes that the cache has seen, and those to jobs that are gone.
func (r *Reconciler) dropSeen(f facts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, last := range r.written {
		j := f.jobs[string(uid)]
		if j == nil {
			delete(r.written, uid)
			continue
		}
		if order, err := resourceversion.CompareResourceVersion(j.ResourceVersion, last.version); err != nil || order >= 0 {
			delete(r.written, uid)
		}
	}
}
