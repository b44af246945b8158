package job

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Observer stands in for the Reconciler where the jobs of the node are executed by other processes, one each. It reports of every
// job that has not begun what it waits for.
type Observer struct {
	// Client reads from a cache that holds this node's FirmwareJobs.
	Client   client.Client
	NodeName string
	// Turn is as in discovery.Config: a process that executes a job has it, and reports that job itself.
	Turn     func() (done func(), ok bool, err error)
	Recorder events.EventRecorder
	Now      func() time.Time
}

// turnRetry is the wait before the next attempt while another process executes a job.
const turnRetry = 15 * time.Second

// SetupWithManager starts the observer with the manager.
func (o *Observer) SetupWithManager(mgr ctrl.Manager) error {
	if err := ctrl.NewControllerManagedBy(mgr).Named("firmwarejob").For(&v1alpha1.FirmwareJob{}).Complete(o); err != nil {
		return fmt.Errorf("set up job observer: %w", err)
	}
	return nil
}

// Reconcile reports what a job waits for.
func (o *Observer) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := &v1alpha1.FirmwareJob{}
	if err := o.Client.Get(ctx, req.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if object.Spec.NodeName != o.NodeName || object.Ended() || object.Status.StartTime != nil {
		return reconcile.Result{}, nil
	}
	done, ok, err := o.Turn()
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case !ok:
		return reconcile.Result{RequeueAfter: turnRetry}, nil
	}
	defer done()
	return reconcile.Result{}, o.write(ctx, object, QueuedStatus(waitsFor(object), o.NodeName, object.Status, object.Generation, o.Now()))
}

func waitsFor(object *v1alpha1.FirmwareJob) string {
	if !object.Admitted() {
		return "The job waits for its admission."
	}
	return "The job waits for the pod that executes it. The daemon of this node executes none (--update-strategy=pod); " +
		"if no pod comes, see that the operator runs with the same strategy."
}

// write reports a job unless it was changed meanwhile: the process that executes it may have begun, and the event of the
// change follows.
func (o *Observer) write(ctx context.Context, object *v1alpha1.FirmwareJob, want v1alpha1.FirmwareJobStatus) error {
	if err := write(ctx, o.Client, o.Recorder, object, want); !apierrors.IsConflict(err) {
		return err
	}
	return nil
}
