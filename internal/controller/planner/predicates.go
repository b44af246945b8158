package planner

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
)

// nodeChanged passes creations, deletions, and labels, by which policies choose.
var nodeChanged = watch.Changed(func(a, b *corev1.Node) bool { return !maps.Equal(a.Labels, b.Labels) })

// policyChanged passes what changes for which nodes something is required, nothing is queued, or a full queue refuses none.
var policyChanged = watch.Changed(func(a, b *v1alpha1.RolloutPolicy) bool {
	aborted := func(p *v1alpha1.RolloutPolicy) bool { return p.Spec.State == v1alpha1.RolloutAborted }
	return aborted(a) != aborted(b) || !slices.Equal(a.Spec.Require, b.Spec.Require) ||
		!equality.Semantic.DeepEqual(a.Spec.NodeSelector, b.Spec.NodeSelector) ||
		!equality.Semantic.DeepEqual(a.Spec.Waves, b.Spec.Waves)
})

// quarantineChanged passes what a person decided, and what jobs reported. A condition says the same.
var quarantineChanged = watch.Changed(func(a, b *v1alpha1.FirmwareQuarantine) bool {
	return a.Generation != b.Generation || a.Status.Scope != b.Status.Scope || !equality.Semantic.DeepEqual(a.Status.Reports, b.Status.Reports)
})

// firmwareChanged passes changes of the spec, where retries are requested, and of what holds the node.
var firmwareChanged = watch.Changed(func(a, b *v1alpha1.NodeFirmware) bool {
	return a.Generation != b.Generation || a.Status.HeldBy != b.Status.HeldBy || a.Status.Requests.Retry != b.Status.Requests.Retry
})

// deviceChanged passes what a decision depends on: the desired and the present firmware, the arrays of a drive, the failures, and
// the conditions that findings has.
var deviceChanged = watch.Changed(func(a, b *v1alpha1.NodeDevice) bool {
	return a.Generation != b.Generation || a.Status.ObservedGeneration != b.Status.ObservedGeneration ||
		a.Status.UniqueID != b.Status.UniqueID || !slices.Equal(a.Status.Arrays, b.Status.Arrays) ||
		!equality.Semantic.DeepEqual(a.Status.Firmware, b.Status.Firmware) ||
		!equality.Semantic.DeepEqual(a.Status.Failure, b.Status.Failure) || quarantine.ModelOf(a) != quarantine.ModelOf(b) ||
		findingsOf(a) != findingsOf(b)
})

// jobChanged passes what a decision depends on; progress does not.
var jobChanged = watch.Changed(func(a, b *v1alpha1.FirmwareJob) bool {
	return a.Ended() != b.Ended() || a.Held() != b.Held() || a.Admitted() != b.Admitted() ||
		!slices.Equal(a.Status.Blamed, b.Status.Blamed)
})

// findings is the part of a device's conditions that a decision depends on.
type findings struct{ blocked, conflict, unread bool }

func findingsOf(d *v1alpha1.NodeDevice) findings {
	return findings{
		blocked:  meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionBlocked),
		conflict: meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionConflict),
		unread:   match.Unread(d),
	}
}
