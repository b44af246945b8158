package fieldset

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// ApplyExecution writes the status of a job without the condition Admitted, which is the rollout's. What executes the job
// does so: the daemon of its node, or the pod that stands in for it. When neither is left, the operator does so as the same
// field manager: only that one can remove what was written before.
//
// The status is written to the version of the job that was read, and to no other: the API server does not compare the uid
// of an apply to a status, so another job of the same name would take it. Where the job is in another version the error is
// a conflict, and the job must be read again. A job that has ended stays ended: a status that says otherwise is not
// written.
func ApplyExecution(ctx context.Context, c client.Client, job *v1alpha1.FirmwareJob, s v1alpha1.FirmwareJobStatus) (written bool, err error) {
	if next := (&v1alpha1.FirmwareJob{Status: s}); job.Ended() && !next.Ended() {
		return false, nil
	}
	s.Conditions = only(s.Conditions, status.JobConditions...)
	part := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: job.Name, UID: job.UID, ResourceVersion: job.ResourceVersion}, Status: s}
	err = apply(ctx, c, v1alpha1.FieldOwnerDaemon, part, "execution of firmware job "+job.Name)
	return err == nil, err
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
