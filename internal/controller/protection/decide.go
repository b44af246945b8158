package protection

import (
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

type facts struct {
	// job is nil when there is none.
	job *v1alpha1.FirmwareJob
	// recorded says that quarantines remember every image that the job reports as bad.
	recorded bool
	// hasNode says that the Node of the job exists.
	hasNode bool
}

type verdict int

const (
	// keep the job as it is.
	keep verdict = iota
	// protect a job that was admitted without the finalizer, such as by an older operator.
	protect
	// letGo takes the finalizer away.
	letGo
)

// decide says what becomes of the finalizer. A job that was never admitted disturbs nothing, and no node begins one that is
// deleted. An admitted job has ended only when what executes it says so, or when the operator says so in its place, because
// the Node is gone and a person confirmed that nothing goes on there. A failed job that holds its Node is kept with it. What a
// job reports about images must be in a quarantine before the job may go.
func decide(f facts) verdict {
	j := f.job
	if j == nil {
		return keep
	}
	over := j.Ended() && (!j.Held() || !f.hasNode)
	if !controllerutil.ContainsFinalizer(j, v1alpha1.JobFinalizer) {
		if j.Admitted() && !over && j.DeletionTimestamp == nil {
			return protect
		}
		return keep
	}
	switch {
	case over && (f.recorded || isConfirmed(j)), !j.Admitted() && !j.Ended() && j.DeletionTimestamp != nil:
		return letGo
	}
	return keep
}

// certifiable reports whether what the job erased may have no certificate yet: a job that was let go has all that it can have.
func (f facts) certifiable() bool {
	return f.job != nil && controllerutil.ContainsFinalizer(f.job, v1alpha1.JobFinalizer) && sanitized(f.job) > 0
}

// isConfirmed reports whether a person decided that the job may go.
func isConfirmed(j *v1alpha1.FirmwareJob) bool {
	return j.Annotations[v1alpha1.ConfirmGoneAnnotation] != ""
}
