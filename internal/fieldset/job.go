package fieldset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// FieldOwnerEnd is the field manager of the operator for the end of a job that no process is left to report.
const FieldOwnerEnd = v1alpha1.FieldOwnerOperator + "-end"

// ApplyExecution writes the status of a job without the conditions of the operator. What executes the job does so: the daemon of its
// node, or the pod that stands in for it.
//
// The status is written to the version of the job that was read, and to no other: the API server does not compare the uid
// of an apply to a status, so another job of the same name would take it. Where the job is in another version the error is
// a conflict, and the job must be read again. A job that has ended stays ended: a status that says otherwise is not
// written. A daemon that lives knows better than the operator, and takes over what that wrote in its place.
func ApplyExecution(ctx context.Context, c client.Client, job *v1alpha1.FirmwareJob, s v1alpha1.FirmwareJobStatus) (written bool, err error) {
	if next := (&v1alpha1.FirmwareJob{Status: s}); job.Ended() && !next.Ended() {
		return false, nil
	}
	said := only(s.Conditions, status.JobConditions...)
	s.Conditions = deny(said, status.EndedByOperator(job.Status.Conditions))
	part := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: job.Name, UID: job.UID, ResourceVersion: job.ResourceVersion}, Status: s}
	what := "execution of firmware job " + job.Name
	err = apply(ctx, c, v1alpha1.FieldOwnerDaemon, part, what)
	if apierrors.IsInvalid(err) { // a condition that the operator wrote too would be left without a status
		part.Status.Conditions = deny(said, only(job.Status.Conditions, status.JobConditions...))
		err = apply(ctx, c, v1alpha1.FieldOwnerDaemon, part, what)
	}
	return err == nil, err
}

// ApplyEnd writes what the operator says of a job that no process is left to report: that it has ended, or why it cannot go on. It takes
// these conditions over from the daemon, and leaves the rest of what that reported. As in ApplyExecution the job must be in the version
// that was read.
func ApplyEnd(ctx context.Context, c client.Client, job *v1alpha1.FirmwareJob, s v1alpha1.FirmwareJobStatus) error {
	s = v1alpha1.FirmwareJobStatus{
		ObservedGeneration: job.Generation, CompletionTime: s.CompletionTime,
		Conditions: deny(only(s.Conditions, status.EndConditions...), only(job.Status.Conditions, v1alpha1.ConditionReconciling, v1alpha1.ConditionHeld)),
	}
	part := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: job.Name, UID: job.UID, ResourceVersion: job.ResourceVersion}, Status: s}
	return apply(ctx, c, FieldOwnerEnd, part, "end of firmware job "+job.Name, "observedGeneration", "completionTime", "conditions")
}

// deny adds those of the old conditions that are not said any more, as False: one that another manager wrote too can be overruled, not
// removed.
func deny(said, old []metav1.Condition) []metav1.Condition {
	ready := meta.FindStatusCondition(said, v1alpha1.ConditionReady)
	out := slices.Clone(said)
	for _, c := range old {
		if ready == nil || meta.FindStatusCondition(said, c.Type) != nil {
			continue
		}
		if c.Status != metav1.ConditionFalse {
			c.Status, c.LastTransitionTime = metav1.ConditionFalse, ready.LastTransitionTime
		}
		c.Reason, c.Message = ready.Reason, ""
		out = append(out, c)
	}
	return out
}

// ApplyAdmission writes the condition Admitted of a job in the given version, and returns the version it left. The rollout
// controller of the operator does so. It fails with a conflict when the job is in another version, or is another one of
// that name.
func ApplyAdmission(ctx context.Context, c client.Client, job *v1alpha1.FirmwareJob, version string, all []metav1.Condition) (string, error) {
	part := &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: job.Name, UID: job.UID, ResourceVersion: version},
		Status:     v1alpha1.FirmwareJobStatus{Conditions: only(all, v1alpha1.ConditionAdmitted)},
	}
	err := apply(ctx, c, FieldOwnerRollout, part, "condition Admitted of firmware job "+job.Name, "conditions")
	return part.ResourceVersion, err
}

// ProtectJob gives the job the finalizer in the version that was read, and returns its version then. A job that is to be admitted
// must have it before: from then on its node may begin it at any time, and a job that is deleted must stay to be counted,
// cancelled and reported. It does nothing where the job has the finalizer, and where the job is being deleted: no finalizer
// can be added then, and the node begins no such job.
func ProtectJob(ctx context.Context, c client.Client, j *v1alpha1.FirmwareJob, version string) (string, error) {
	if j.DeletionTimestamp != nil || controllerutil.ContainsFinalizer(j, v1alpha1.JobFinalizer) {
		return version, nil
	}
	return writeFinalizers(ctx, c, j, version, append(slices.Clone(j.Finalizers), v1alpha1.JobFinalizer))
}

// ReleaseJob takes the finalizer of a job away in the version that was read.
func ReleaseJob(ctx context.Context, c client.Client, j *v1alpha1.FirmwareJob) error {
	ours := func(f string) bool { return f == v1alpha1.JobFinalizer }
	_, err := writeFinalizers(ctx, c, j, j.ResourceVersion, slices.DeleteFunc(slices.Clone(j.Finalizers), ours))
	return err
}

func writeFinalizers(ctx context.Context, c client.Client, j *v1alpha1.FirmwareJob, version string, finalizers []string) (string, error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": j.UID, "resourceVersion": version, "finalizers": finalizers,
	}})
	if err != nil {
		return "", fmt.Errorf("encode finalizers: %w", err)
	}
	patched := &v1alpha1.FirmwareJob{}
	patched.Name = j.Name
	patch := client.RawPatch(types.MergePatchType, body)
	if err := c.Patch(ctx, patched, patch, client.FieldOwner(v1alpha1.FieldOwnerOperator)); err != nil {
		return "", fmt.Errorf("write finalizers of firmware job %s: %w", j.Name, err)
	}
	return patched.ResourceVersion, nil
}
