package nodecondition

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// facts is what was read about one node.
type facts struct {
	kinds []string
	// node is nil when there is no such Node, and firmware when there is no such NodeFirmware.
	node     *corev1.Node
	firmware *v1alpha1.NodeFirmware
	// devices are those of the node, where it is said whether they run their firmware.
	devices []v1alpha1.NodeDevice
	// job is the one that has a place for the node in the budget; nil where none has, and where nothing is said of it.
	job *v1alpha1.FirmwareJob
}

// decide returns the conditions that the Node should have of this product, in order.
func decide(f facts, now time.Time) []corev1.NodeCondition {
	was := ours(f.node)
	var want []status.Condition
	if f.firmware != nil && slices.Contains(f.kinds, config.NodeConditionsCompliance) {
		if c := status.Compliance(f.firmware.Status.Conditions, slices.ContainsFunc(f.devices, isBehind), condition(was, v1alpha1.ConditionFirmwareCompliant)); c != nil {
			want = append(want, *c)
		}
	}
	for _, c := range status.Lifecycle(f.lifecycle()) {
		if others := condition(f.node.Status.Conditions, corev1.NodeConditionType(c.Type)); others == nil || status.IsOurs(*others) {
			want = append(want, c)
		}
	}
	return status.OnNode(was, now, want...)
}

// isBehind reports whether a device does not run its desired firmware, or it is not known what it runs. Its settings do not count: the condition
// FirmwareCompliant is about firmware. What a new node waits for is more, see behind of internal/controller/cleaning.
func isBehind(d v1alpha1.NodeDevice) bool {
	want, is := d.Spec.Firmware, d.Status.Firmware
	return want != nil && (is == nil || inventory.NormalizeVersion(is.Running) != inventory.NormalizeVersion(want.Version))
}

// lifecycle is how far the maintenance of the node is, for as long as a job has it. Whether it is drained is known where the operator
// does that itself; a node that somebody has uncordoned meanwhile is not.
func (f facts) lifecycle() status.NodeLifecycle {
	if f.job == nil {
		return status.NodeLifecycle{}
	}
	l := status.NodeLifecycle{Job: f.job.Name}
	if f.firmware != nil {
		request, answer := f.firmware.Status.MaintenanceRequest, f.firmware.Status.Maintenance
		if request != nil && request.Type == v1alpha1.MaintenanceDrain && answer != nil && answer.RequestID == request.ID &&
			answer.NodeUID == string(f.node.UID) && f.node.Spec.Unschedulable {
			l.Draining, l.Drained = answer.State == v1alpha1.MaintenanceDraining, answer.State == v1alpha1.MaintenanceDrained
		}
	}
	ready := meta.FindStatusCondition(f.job.Status.Conditions, v1alpha1.ConditionMaintenanceReady)
	over := ready != nil && ready.Reason == v1alpha1.ReasonReleased
	l.InMaintenance = l.Drained || meta.IsStatusConditionTrue(f.job.Status.Conditions, v1alpha1.ConditionMaintenanceReady)
	l.Planned = !over && !l.InMaintenance && !f.job.Ended() && takesNode(f.job)
	return l
}

// takesNode reports whether a job takes its node out of service, as far as its steps are known yet.
func takesNode(j *v1alpha1.FirmwareJob) bool {
	return len(j.Status.Steps) == 0 || slices.ContainsFunc(j.Status.Steps, func(s v1alpha1.JobStep) bool { return s.Name == string(plan.Maintenance) })
}

func condition(all []corev1.NodeCondition, kind corev1.NodeConditionType) *corev1.NodeCondition {
	i := slices.IndexFunc(all, func(c corev1.NodeCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &all[i]
}
