package job

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

func (r *Reconciler) act(ctx context.Context, f state, v verdict) error {
	switch v {
	case refuse:
		j := r.newJob(f)
		j.Record = step.Record{}
		failure := refusal(f)
		if failure.Held { // the steps by which a person returns the node
			j.Record = engine.NewRecord(r.Catalog, nil)
			j.Record.Inherited = true
		}
		if j.Record.Failure = failure; len(failure.Blames) > 0 {
			j.Record.Rollback = &step.Rollback{Failure: &step.Failure{
				Reason: failure.Reason, Message: "what was to be restored was lost with the node's state directory",
			}}
		}
		return r.Engine.Refuse(j)
	case submit:
		return r.submit(r.newJob(f))
	case cancelUnstarted:
		return r.Engine.CancelUnstarted(r.newJob(f), cancelReason(f.object))
	case cancel:
		r.Engine.Cancel(f.known.UID, cancellation(f.object))
	case release:
		return r.Engine.Release(f.holds.UID)
	case conclude:
		return r.publish(ctx, *f.known)
	}
	return nil
}

func (r *Reconciler) submit(j journal.Job) error {
	err := r.Engine.Submit(j)
	if errors.Is(err, engine.ErrBusy) {
		return nil // the end of the running job enqueues this one again
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enqueue(&v1alpha1.NodeFirmware{}) // the job that held the node, if one did, has been superseded
	return err
}

// noteHold journals the request to release that is there when the daemon finds that a job holds the node, before the hold is
// reported: it was made for something else, so only another one releases the node.
func (r *Reconciler) noteHold(f *state) error {
	if f.holds == nil || f.holds.Release != nil {
		return nil
	}
	f.holds.Release = f.release.InForce()
	return r.Journal.Save(*f.holds)
}

// publish makes the results of a job visible before its end: as soon as the operator sees that the job ended, it plans the
// next one from the status of the devices.
func (r *Reconciler) publish(ctx context.Context, job journal.Job) error {
	if job.Held() {
		if err := r.Maintenance.Fail(ctx, job.Record.Failure.Message); err != nil {
			return err
		}
	}
	if err := r.Results.Refresh(ctx); err != nil {
		return fmt.Errorf("publish results of job %s: %w", job.Name, err)
	}
	return nil
}

// markReported journals that the API server has the end of a job, so that its results are not published again. A job whose
// object is gone needs no report.
func (r *Reconciler) markReported(f state, v verdict) error {
	if v != conclude {
		return nil
	}
	done := *f.known
	done.Reported = true
	return r.Journal.Save(done)
}

// cancellation is what a person asked for. A job whose object is deleted is cancelled without a grace period.
func cancellation(job *v1alpha1.FirmwareJob) engine.Cancellation {
	c := engine.Cancellation{Reason: cancelReason(job), Force: isForced(job)}
	if spec := job.Spec.Cancel; spec != nil {
		c.Grace = spec.GracePeriod.Duration(0)
	}
	return c
}

func cancelReason(job *v1alpha1.FirmwareJob) string {
	if job.Spec.Cancel == nil {
		return "the FirmwareJob was deleted"
	}
	return "spec.cancel asks for it"
}

// Advise emits an event of the running job with the message of an executable in wanted.d, once for each transition. Nothing is
// decided by it. It is for health.Checks and does not block.
func (r *Reconciler) Advise(a health.Advice) {
	current, ok := r.Engine.Current()
	if !ok {
		return
	}
	kind := corev1.EventTypeNormal
	if a.Failing {
		kind = corev1.EventTypeWarning
	}
	about := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: current.Job.Name, UID: types.UID(current.Job.UID)}}
	if parent := current.Job.TraceParent; parent != "" {
		about.Annotations = map[string]string{v1alpha1.TraceParentAnnotation: parent}
	}
	r.Recorder.Eventf(about, nil, kind, v1alpha1.ReasonHealthAdvice, "Check", "%s", a.Message)
}
