package explain

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Concern is the condition by which an object says that it needs a person, nil for none.
func Concern(conditions []metav1.Condition) *metav1.Condition {
	for _, kind := range []string{v1alpha1.ConditionHeld, v1alpha1.ConditionStalled, v1alpha1.ConditionPinsUnmatched, v1alpha1.ConditionDegraded} {
		if meta.IsStatusConditionTrue(conditions, kind) {
			return meta.FindStatusCondition(conditions, kind)
		}
	}
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionDaemonReady); c != nil && c.Status == metav1.ConditionFalse {
		return c
	}
	if c := Cleaning(conditions); c != nil && (c.Reason == v1alpha1.ReasonStepFailed || c.Reason == v1alpha1.ReasonConflict) {
		return c
	}
	return nil
}

// Cleaning is why a node that is new or out of service is not clean; nil for any other.
func Cleaning(conditions []metav1.Condition) *metav1.Condition {
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionClean); c != nil && c.Status != metav1.ConditionTrue {
		return c
	}
	return nil
}

// Described is the kind of an object in a word, and its conditions.
func Described(o client.Object) (string, []metav1.Condition) {
	switch o := o.(type) {
	case *v1alpha1.RolloutPolicy:
		return "policy", o.Status.Conditions
	case *v1alpha1.CleaningPolicy:
		return "cleaning", o.Status.Conditions
	case *v1alpha1.FirmwareTemplate:
		return "template", o.Status.Conditions
	case *v1alpha1.ConfigurationTemplate:
		return "settings", o.Status.Conditions
	case *v1alpha1.FirmwareSource:
		return "source", o.Status.Conditions
	case *v1alpha1.FirmwareQuarantine:
		return "quarantine", o.Status.Conditions
	case *v1alpha1.FirmwareCatalog:
		return "catalog", o.Status.Conditions
	case *v1alpha1.NodeFirmware:
		return "node", o.Status.Conditions
	case *v1alpha1.NodeDevice:
		return "device", o.Status.Conditions
	case *v1alpha1.FirmwareJob:
		return "job", o.Status.Conditions
	}
	return "object", nil
}

// Deciding is the condition that says most about an object: what needs a person, or else Ready.
func Deciding(conditions []metav1.Condition) metav1.Condition {
	if c := Concern(conditions); c != nil {
		return *c
	}
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if c := Cleaning(conditions); c != nil && (ready == nil || ready.Status == metav1.ConditionTrue) {
		return *c
	}
	if ready != nil {
		return *ready
	}
	return metav1.Condition{Reason: v1alpha1.ReasonPending, Message: "Nothing has looked at it yet. Is the operator running?"}
}

// DecidingOf is the condition that says most about a job: how it failed, or else what it waits for, or else what it does.
func DecidingOf(j *v1alpha1.FirmwareJob) metav1.Condition {
	c := Deciding(j.Status.Conditions)
	if failed := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionFailed); j.Failed() {
		return *failed
	}
	if !j.Ended() && !j.MayBegin() {
		return Waiting(j, c)
	}
	return c
}

// Waiting is why a job is not admitted.
func Waiting(j *v1alpha1.FirmwareJob, otherwise metav1.Condition) metav1.Condition {
	if c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionAdmitted); c != nil {
		return *c
	}
	return otherwise
}

// Unended is that of the jobs of a node which has not ended: the one that is admitted, because a node has one at a time, or else a backup, which
// needs no admission, or else the one that goes first in the queue; nil for none.
func Unended(jobs []*v1alpha1.FirmwareJob) *v1alpha1.FirmwareJob {
	rank := func(j *v1alpha1.FirmwareJob) int {
		begun := 1 // further on by one where it has not
		if j.Status.StartTime != nil {
			begun = 0
		}
		switch c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionAdmitted); {
		case j.Admitted():
			return begun
		case j.MayBegin():
			return 2 + begun
		case j.Spec.Cancel != nil: // it is never admitted
			return 6
		case c != nil && c.Reason == v1alpha1.ReasonNodeBusy: // another one goes first
			return 5
		}
		return 4
	}
	priority := func(j *v1alpha1.FirmwareJob) int32 {
		if j.Spec.Priority == nil {
			return 0
		}
		return *j.Spec.Priority
	}
	open := slices.DeleteFunc(slices.Clone(jobs), (*v1alpha1.FirmwareJob).Ended)
	if len(open) == 0 {
		return nil
	}
	return slices.MinFunc(open, func(a, b *v1alpha1.FirmwareJob) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(priority(b), priority(a)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}
