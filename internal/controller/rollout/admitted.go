package rollout

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	apply "github.com/nodefirmware/node-firmware-operator/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// telling is the Admitted condition as this process last wrote it. It counts until the cache has seen that write, so
// that no pass repeats it.
type telling struct {
	version string
	status  metav1.ConditionStatus
	reason  string
}

// tell writes the Admitted condition of one job and reports whether it was there to be told.
func (r *Reconciler) tell(ctx context.Context, j *v1alpha1.FirmwareJob, want status.Condition) (told bool, err error) {
	conditions := status.Merge(j.Status.Conditions, j.Generation, r.now(), []string{v1alpha1.ConditionAdmitted}, want)
	// The API server does not compare the uid of an apply to a status. The version keeps what is meant for this job from
	// another one that has its name by now.
	version := j.ResourceVersion
	if t, ok := r.told[j.UID]; ok {
		version = t.version
	}
	body := apply.FirmwareJob(j.Name).WithUID(j.UID).WithResourceVersion(version).WithStatus(
		apply.FirmwareJobStatus().WithConditions(status.ForApply(conditions, v1alpha1.ConditionAdmitted)...))
	err = r.client.Status().Apply(ctx, body, client.FieldOwner(v1alpha1.FieldOwnerOperator), client.ForceOwnership)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // gone, changed meanwhile, or another job of that name; its event follows
		return false, nil
	case err != nil:
		return false, fmt.Errorf("write condition Admitted of firmware job %s: %w", j.Name, err)
	}
	r.told[j.UID] = telling{version: ptr.Deref(body.ResourceVersion, ""), status: want.Status, reason: want.Reason}
	return true, nil
}

// knows reports whether the job's Admitted condition is as wanted already. Messages do not count.
func (r *Reconciler) knows(j *v1alpha1.FirmwareJob, want status.Condition) bool {
	state, reason := r.current(j)
	return state == want.Status && reason == want.Reason
}

// current is the job's Admitted condition, by the cache or by what this process wrote since.
func (r *Reconciler) current(j *v1alpha1.FirmwareJob) (state metav1.ConditionStatus, reason string) {
	if t, ok := r.told[j.UID]; ok {
		return t.status, t.reason
	}
	if c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionAdmitted); c != nil {
		return c.Status, c.Reason
	}
	return metav1.ConditionUnknown, ""
}

// state is where a job stands, by the cache or by what this process wrote since.
func (r *Reconciler) state(j *v1alpha1.FirmwareJob) schedule.JobState {
	s := stateOf(j)
	if t, ok := r.told[j.UID]; ok && (s == schedule.Queued || s == schedule.Cancelled) && t.status == metav1.ConditionTrue {
		return schedule.Admitted
	}
	return s
}

// forget drops what the cache has seen, and jobs that are gone.
func (r *Reconciler) forget(f facts) {
	for uid, t := range r.told {
		j := f.jobs[string(uid)]
		if j == nil {
			delete(r.told, uid)
			continue
		}
		if order, err := resourceversion.CompareResourceVersion(j.ResourceVersion, t.version); err != nil || order >= 0 {
			delete(r.told, uid)
		}
	}
}
