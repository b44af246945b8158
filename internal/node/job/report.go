package job

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	v1alpha1ac "github.com/nodefirmware/node-firmware-operator/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
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
	return write(ctx, r.Client, r.Recorder, object, *want, applyStatus(object, *want))
}

// write applies the status, with events for its transitions, unless the object has it already. An object that is gone needs
// no report.
func write(ctx context.Context, c client.Client, recorder events.EventRecorder, object *v1alpha1.FirmwareJob,
	want v1alpha1.FirmwareJobStatus, body *v1alpha1ac.FirmwareJobApplyConfiguration) error {
	if sameStatus(object.Status, want) {
		return nil
	}
	err := c.Status().Apply(ctx, body, client.FieldOwner(v1alpha1.FieldOwnerDaemon), client.ForceOwnership)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("report job %s: %w", object.Name, err)
	}
	emitTransitions(recorder, object, want)
	return nil
}

// status is how the job stands now, after the act. It is nil for a job that has ended since it was gathered: its results are
// not published yet, and the notification of the engine brings it back.
func (r *Reconciler) status(object *v1alpha1.FirmwareJob, v verdict) (*v1alpha1.FirmwareJobStatus, error) {
	view, err := r.Journal.View()
	if err != nil {
		return nil, err
	}
	known := view.Job(string(object.UID))
	if known == nil {
		out := r.unknownStatus(object, view, v)
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
func (r *Reconciler) unknownStatus(object *v1alpha1.FirmwareJob, view journal.View, v verdict) v1alpha1.FirmwareJobStatus {
	now := r.now()
	if v == scan {
		return scanned(object, r.NodeName, now)
	}
	why := "The job waits for its admission."
	if active := view.Active(); active != nil && active.Record.Outcome == "" {
		why = fmt.Sprintf("The job waits until job %s has ended.", active.Name)
	}
	return QueuedStatus(why, r.NodeName, object.Status, object.Generation, now)
}

// applyStatus is the apply configuration with everything the daemon owns in the status of a job.
func applyStatus(job *v1alpha1.FirmwareJob, s v1alpha1.FirmwareJobStatus) *v1alpha1ac.FirmwareJobApplyConfiguration {
	st := v1alpha1ac.FirmwareJobStatus().WithObservedGeneration(s.ObservedGeneration).WithReboots(s.Reboots).
		WithConditions(status.ForApply(s.Conditions, status.JobConditions...)...)
	st.StartTime, st.CompletionTime = s.StartTime, s.CompletionTime
	if s.Maintenance != nil {
		st.Maintenance = v1alpha1ac.MaintenanceWindow()
		st.Maintenance.StartTime, st.Maintenance.EndTime = s.Maintenance.StartTime, s.Maintenance.EndTime
	}
	for _, js := range s.Steps {
		st.WithSteps(applyStep(js))
	}
	if v := s.Verdict; v != nil {
		st.WithVerdict(v1alpha1ac.HealthVerdict().WithResult(v.Result).WithBootID(v.BootID).WithTime(v.Time).WithJob(v.Job).
			WithComplaints(v.Complaints...))
	}
	for _, b := range s.BadImages {
		bad := v1alpha1ac.BadImage().WithDevice(b.Device).WithDigest(b.Digest).WithModel(b.Model)
		if b.Message != "" {
			bad.WithMessage(b.Message)
		}
		st.WithBadImages(bad)
	}
	// The uid makes sure that a new job of the same name does not get the status of the old one.
	return v1alpha1ac.FirmwareJob(job.Name).WithUID(job.UID).WithStatus(st)
}

func applyStep(js v1alpha1.JobStep) *v1alpha1ac.JobStepApplyConfiguration {
	a := v1alpha1ac.JobStep().WithName(js.Name).WithPriority(js.Priority).WithState(js.State)
	if js.Device != "" {
		a.WithDevice(js.Device)
	}
	if js.Phase != "" {
		a.WithPhase(js.Phase)
	}
	if js.Attempt > 0 {
		a.WithAttempt(js.Attempt)
	}
	if js.BootID != "" {
		a.WithBootID(js.BootID)
	}
	if js.Message != "" {
		a.WithMessage(js.Message)
	}
	a.ProgressPercent, a.StartTime, a.FinishTime = js.ProgressPercent, js.StartTime, js.FinishTime
	return a
}
