package job

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
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
		if known.Held() {
			s.Look = r.Looked.Last()
		}
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

// Bounds in bytes of JSON, which keep a job of many devices under 256 KiB. The journal of the node has everything.
const (
	// maxSize is for the updates, the steps and the blame together. The API server notes of each update and of each blamed device who
	// wrote it: the updates count twice, and the rest is left for the others.
	maxSize      = 184 << 10
	minStepsSize = 16 << 10
	maxBlameSize = 48 << 10
	// shortMessage is how short the message of a step or of a blamed device becomes, in bytes.
	shortMessage = 64
)

// roomForSteps is what the updates and the blame of a job leave to its steps.
func roomForSteps(updates []journal.Update, blamed []v1alpha1.BlamedDevice) int {
	return max(maxSize-2*v1alpha1.SizeOf(updates)-v1alpha1.SizeOf(blamed), minStepsSize)
}

// brief shortens the steps until they fit into the room: first the messages of those that neither run nor failed, then all messages. Then the
// oldest that succeeded are left out, and at last those that come last. A failed step stays: it says which device the job
// failed on. So does one that erased a drive.
func brief(steps []v1alpha1.JobStep, room int) []v1alpha1.JobStep {
	matters := func(s v1alpha1.JobStep) bool {
		return s.State == v1alpha1.StepRunning || s.State == v1alpha1.StepFailed
	}
	left := v1alpha1.SizeOf(steps) - room
	clip := func(of func(v1alpha1.JobStep) bool) {
		for i := range steps {
			if s := &steps[i]; left > 0 && of(*s) && len(s.Message) > shortMessage {
				left -= len(s.Message) - shortMessage
				s.Message = text.Clip(s.Message, shortMessage)
			}
		}
	}
	clip(func(s v1alpha1.JobStep) bool { return !matters(s) })
	clip(matters)
	drop := func(s v1alpha1.JobStep) bool {
		if left <= 0 || matters(s) || s.Sanitization != nil { // nothing else says that the drive is erased
			return false
		}
		left -= v1alpha1.SizeOf(s) + len(",")
		return true
	}
	past := func(s v1alpha1.JobStep) bool {
		return s.State == v1alpha1.StepSucceeded || s.State == v1alpha1.StepSkipped
	}
	steps = slices.DeleteFunc(steps, func(s v1alpha1.JobStep) bool { return past(s) && drop(s) })
	slices.Reverse(steps)
	steps = slices.DeleteFunc(steps, drop)
	slices.Reverse(steps)
	return steps
}

// briefBlame shortens the messages of blamed devices until they fit. None is left out.
func briefBlame(blamed []v1alpha1.BlamedDevice) []v1alpha1.BlamedDevice {
	for limit := maxBlameMessage / 2; limit >= shortMessage && v1alpha1.SizeOf(blamed) > maxBlameSize; limit /= 2 {
		for i := range blamed {
			blamed[i].Message = text.Clip(blamed[i].Message, limit)
		}
	}
	return blamed
}

// Settled reports whether nothing is left to do for the job that Only names, and for the other jobs in the journal: all have
// ended, and the API server has the end of each one whose object still exists. Call it once the cache is filled.
func (r *Reconciler) Settled(ctx context.Context) (bool, error) {
	view, err := r.Journal.View()
	if err != nil {
		return false, err
	}
	for i := range view.Jobs {
		if view.Jobs[i].Record.Outcome == "" {
			return false, nil
		}
	}
	f, err := r.gather(ctx, r.Only)
	if err != nil {
		return false, err
	}
	if v := decide(f); v != leave && v != follow {
		return false, nil
	}
	return r.allReported(ctx, view)
}

// allReported reports whether the objects of all jobs that ended say so.
func (r *Reconciler) allReported(ctx context.Context, view journal.View) (bool, error) {
	var objects v1alpha1.FirmwareJobList
	if err := r.Client.List(ctx, &objects); err != nil {
		return false, fmt.Errorf("list jobs: %w", err)
	}
	for i := range objects.Items {
		if known := view.Job(string(objects.Items[i].UID)); known != nil && !known.Reported {
			return false, nil
		}
	}
	return true, nil
}

// transitions are the conditions that are reported as an event when they become True.
var transitions = []struct{ condition, kind, action string }{
	{v1alpha1.ConditionComplete, corev1.EventTypeNormal, "Update"},
	{v1alpha1.ConditionFailed, corev1.EventTypeWarning, "Update"},
	{v1alpha1.ConditionMaintenanceReady, corev1.EventTypeNormal, "Maintain"},
	{v1alpha1.ConditionRolledBack, corev1.EventTypeWarning, "RollBack"},
}

// emitTransitions emits an event for each transition between the old status of a job and the new one.
func emitTransitions(recorder events.EventRecorder, job *v1alpha1.FirmwareJob, now v1alpha1.FirmwareJobStatus) {
	for _, t := range transitions {
		c := meta.FindStatusCondition(now.Conditions, t.condition)
		if c != nil && c.Status == metav1.ConditionTrue && !meta.IsStatusConditionTrue(job.Status.Conditions, t.condition) {
			recorder.Eventf(job, nil, t.kind, c.Reason, t.action, "%s", c.Message)
		}
	}
	for _, s := range now.Steps { // the job goes on where other drives erase themselves
		known := func(was v1alpha1.JobStep) bool {
			return was.Name == s.Name && was.Device == s.Device && was.State == s.State
		}
		if s.Name == string(plan.Erase) && s.State == v1alpha1.StepFailed && s.Attempt > 0 && now.CompletionTime == nil && !slices.ContainsFunc(job.Status.Steps, known) {
			recorder.Eventf(job, nil, corev1.EventTypeWarning, v1alpha1.ReasonStepFailed, "Update", "Step %s of %s failed: %s", s.Name, s.Device, s.Message)
		}
	}
	was, is := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionProtected), meta.FindStatusCondition(now.Conditions, v1alpha1.ConditionProtected)
	if is != nil && is.Status == metav1.ConditionFalse &&
		(was == nil || was.Status != is.Status || was.Reason != is.Reason || was.Message != is.Message && now.CompletionTime == nil) {
		recorder.Eventf(job, nil, corev1.EventTypeWarning, is.Reason, "Protect", "%s", is.Message)
	}
	wasHeld := meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionHeld)
	stalled := meta.FindStatusCondition(now.Conditions, v1alpha1.ConditionStalled)
	if wasHeld && stalled != nil && stalled.Reason == v1alpha1.ReasonReleased {
		recorder.Eventf(job, nil, corev1.EventTypeNormal, stalled.Reason, "Release", "%s", stalled.Message)
	}
}
