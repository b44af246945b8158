package job

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
)

// report writes the status of a job once, if it differs from what the API server has.
func (r *Reconciler) report(ctx context.Context, object *v1alpha1.FirmwareJob, v verdict) error {
	if object == nil || v == leave {
		return nil
	}
	want, err := r.status(object, v)
	if err != nil || want == nil {
		return err
	}
	return write(ctx, r.Client, r.Recorder, object, *want)
}

// write applies the status, with events for its transitions, unless the object has it already. An object that is gone needs
// no report.
func write(ctx context.Context, c client.Client, recorder events.EventRecorder, object *v1alpha1.FirmwareJob, want v1alpha1.FirmwareJobStatus) error {
	if sameStatus(object.Status, want) {
		return nil
	}
	written, err := fieldset.ApplyExecution(ctx, c, object, want)
	if written {
		emitTransitions(recorder, object, want)
	}
	return client.IgnoreNotFound(err)
}

// status is how the job stands now, after the act. It is nil for a job that has ended since it was gathered: its results
// are not published yet, and the notification of the engine starts another pass.
func (r *Reconciler) status(object *v1alpha1.FirmwareJob, v verdict) (*v1alpha1.FirmwareJobStatus, error) {
	view, err := r.Journal.View()
	if err != nil {
		return nil, err
	}
	known := view.Job(string(object.UID))
	if known == nil {
		out := r.unknownStatus(object, view)
		return &out, nil
	}
	s, ok := r.Engine.Current()
	if !ok || s.Job.UID != known.UID || known.Record.Outcome != "" {
		s = engine.Snapshot{Job: *known}
	}
	if s.Job.Record.Outcome != "" && !s.Job.Reported && v != conclude {
		return nil, nil
	}
	out := Status(s, r.NodeName, object.Status, object.Generation, r.now())
	return &out, nil
}

// unknownStatus is the status of a job that is not in the journal.
func (r *Reconciler) unknownStatus(object *v1alpha1.FirmwareJob, view journal.View) v1alpha1.FirmwareJobStatus {
	now := r.now()
	why := "The job waits for its admission."
	if active := view.Active(); active != nil && active.Record.Outcome == "" {
		why = fmt.Sprintf("The job waits until job %s has ended.", active.Name)
	}
	return QueuedStatus(why, r.NodeName, object.Status, object.Generation, now)
}
