package job

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

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
	was, is := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionProtected), meta.FindStatusCondition(now.Conditions, v1alpha1.ConditionProtected)
	if is != nil && is.Status == metav1.ConditionFalse && (was == nil || was.Status != is.Status || was.Reason != is.Reason) {
		recorder.Eventf(job, nil, corev1.EventTypeWarning, is.Reason, "Protect", "%s", is.Message)
	}
	wasHeld := meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionHeld)
	stalled := meta.FindStatusCondition(now.Conditions, v1alpha1.ConditionStalled)
	if wasHeld && stalled != nil && stalled.Reason == v1alpha1.ReasonReleased {
		recorder.Eventf(job, nil, corev1.EventTypeNormal, stalled.Reason, "Release", "%s", stalled.Message)
	}
}
