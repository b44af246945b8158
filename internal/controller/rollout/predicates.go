package rollout

import (
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// policyChanged passes what may change a decision: the spec, or a ledger somebody changed. Counters do not.
var policyChanged = watch.Changed(func(a, b *v1alpha1.RolloutPolicy) bool {
	return a.Generation != b.Generation || !slices.EqualFunc(a.Status.Admitted, b.Status.Admitted,
		func(x, y v1alpha1.AdmittedNode) bool { return schedule.EntryOf(x) == schedule.EntryOf(y) })
})

// jobChanged passes what may change a decision; progress does not.
var jobChanged = watch.Changed(func(a, b *v1alpha1.FirmwareJob) bool {
	return stateOf(a) != stateOf(b) || !ptr.Equal(a.Spec.Priority, b.Spec.Priority) || !slices.Equal(a.Status.Blamed, b.Status.Blamed)
})

// templateChanged passes what may change the order of the queue.
var templateChanged = watch.Changed(func(a, b *v1alpha1.FirmwareTemplate) bool { return a.Spec.Priority != b.Spec.Priority })

// quarantineChanged passes what may change which images are quarantined.
var quarantineChanged = watch.Changed(func(a, b *v1alpha1.FirmwareQuarantine) bool {
	return a.Generation != b.Generation || a.Status.Scope != b.Status.Scope || !equality.Semantic.DeepEqual(a.Status.Reports, b.Status.Reports)
})

// sourceChanged passes the images, one of which a job may need to roll back to.
var sourceChanged = watch.Changed(func(a, b *v1alpha1.FirmwareSource) bool {
	return !equality.Semantic.DeepEqual(a.Status.Images, b.Status.Images)
})

// deviceChanged passes what may keep a job from being admitted: the model, whether a job left the device unhealthy, and what
// says whether a rollback image is for the device.
var deviceChanged = watch.Changed(func(a, b *v1alpha1.NodeDevice) bool {
	return quarantine.ModelOf(a) != quarantine.ModelOf(b) || !equality.Semantic.DeepEqual(a.Status.Failure, b.Status.Failure) ||
		!reflect.DeepEqual(match.DeviceOf(a), match.DeviceOf(b)) || running(a) != running(b) || sourceOf(a) != sourceOf(b)
})

// running is the version that the device runs; empty where it was not read.
func running(d *v1alpha1.NodeDevice) string {
	if d.Status.Firmware == nil {
		return ""
	}
	return d.Status.Firmware.Running
}

// sourceOf is the source that is assigned to the device; empty for none.
func sourceOf(d *v1alpha1.NodeDevice) string {
	return d.Spec.SourceName()
}

// firmwareChanged passes what may let such a job be admitted: the first scan, and a request to retry. It also passes whether
// the node is at work, which frees the place of a job that is gone.
var firmwareChanged = watch.Changed(func(a, b *v1alpha1.NodeFirmware) bool {
	return isScanned(a) != isScanned(b) || desired.Retry(a) != desired.Retry(b) ||
		runs(a) != runs(b) || isHeld(a) != isHeld(b)
})

// nodeChanged passes what may change a decision; heartbeats do not.
var nodeChanged = watch.Changed(func(a, b *corev1.Node) bool {
	return isReady(a) != isReady(b) || a.Spec.Unschedulable != b.Spec.Unschedulable || !maps.Equal(a.Labels, b.Labels)
})
