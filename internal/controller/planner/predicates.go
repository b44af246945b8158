package planner

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// onlyExistence passes creations and deletions.
var onlyExistence = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

// firmwareChanged passes changes of the spec, where retries are requested.
var firmwareChanged = changed(func(a, b *v1alpha1.NodeFirmware) bool { return a.Generation != b.Generation })

// deviceChanged passes what a decision depends on: the wish, the firmware, the failure and the verdicts.
var deviceChanged = changed(func(a, b *v1alpha1.NodeDevice) bool {
	return a.Generation != b.Generation || a.Status.ObservedGeneration != b.Status.ObservedGeneration ||
		a.Status.UniqueID != b.Status.UniqueID ||
		!equality.Semantic.DeepEqual(a.Status.Firmware, b.Status.Firmware) ||
		!equality.Semantic.DeepEqual(a.Status.LastFailure, b.Status.LastFailure) ||
		verdicts(a.Status.Conditions) != verdicts(b.Status.Conditions)
})

// jobChanged passes what a decision depends on; progress does not.
var jobChanged = changed(func(a, b *v1alpha1.FirmwareJob) bool {
	return ended(a) != ended(b) || isHeld(a) != isHeld(b) || isAdmitted(a) != isAdmitted(b)
})

func changed[T client.Object](differ func(a, b T) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		a, okA := e.ObjectOld.(T)
		b, okB := e.ObjectNew.(T)
		return !okA || !okB || a.GetUID() != b.GetUID() || differ(a, b)
	}}
}

// verdictSet is the part of a device's conditions a decision depends on.
type verdictSet struct {
	blocked, conflict, unread bool
	readyReason               string
}

func verdicts(conditions []metav1.Condition) verdictSet {
	v := verdictSet{
		blocked:  meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionBlocked),
		conflict: meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionConflict),
		unread:   meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionInspected),
	}
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); c != nil {
		v.readyReason = c.Reason
	}
	return v
}
