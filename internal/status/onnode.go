package status

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// OnNodeTypes are the condition types of a Node that the operator writes. All but the first are Kubernetes' own, and may be written by
// others too.
var OnNodeTypes = []corev1.NodeConditionType{
	v1alpha1.ConditionFirmwareCompliant, v1alpha1.ConditionMaintenancePlanned, v1alpha1.ConditionDrainInProgress, v1alpha1.ConditionDrained,
	v1alpha1.ConditionMaintenanceInProgress,
}

// IsOurs reports whether the operator wrote a condition of a Node.
func IsOurs(c corev1.NodeCondition) bool {
	return c.Type == v1alpha1.ConditionFirmwareCompliant || slices.Contains(OnNodeTypes, c.Type) && c.Reason == v1alpha1.LifecycleReason
}

// NodeLifecycle is how far the maintenance of a node for a job is.
type NodeLifecycle struct {
	Job                                       string
	Planned, Draining, Drained, InMaintenance bool
}

// Lifecycle are the conditions of a Node that say so. Those that do not hold are left out.
func Lifecycle(l NodeLifecycle) []Condition {
	var out []Condition
	for _, c := range []struct {
		is            bool
		kind, message string
	}{
		{l.Planned, v1alpha1.ConditionMaintenancePlanned, "Job %s takes the node out of service for an update of firmware."},
		{l.Draining, v1alpha1.ConditionDrainInProgress, "Pods are evicted for job %s."},
		{l.Drained, v1alpha1.ConditionDrained, "No pod is left that a drain evicts; job %s has the node."},
		{l.InMaintenance, v1alpha1.ConditionMaintenanceInProgress, "Job %s has the node; it may reboot and be unreachable meanwhile."},
	} {
		if c.is {
			out = append(out, Condition{c.kind, metav1.ConditionTrue, v1alpha1.LifecycleReason, fmt.Sprintf(c.message, l.Job)})
		}
	}
	return out
}

// Compliance is what the conditions of a NodeFirmware say about the condition FirmwareCompliant of its Node; nil for nothing, before the
// first report. While a job has the node its conditions do not tell whether that changes firmware, and its devices do: behind says that one of
// them does not run what it should. One that is not behind any more is compliant when the job has ended, and not before.
func Compliance(of []metav1.Condition, behind bool, was *corev1.NodeCondition) *Condition {
	ready, silent := meta.FindStatusCondition(of, v1alpha1.ConditionReady), meta.FindStatusCondition(of, v1alpha1.ConditionDaemonReady)
	stuck, working := active(of, v1alpha1.ConditionStalled), active(of, v1alpha1.ConditionReconciling)
	c := &Condition{Type: v1alpha1.ConditionFirmwareCompliant, Status: metav1.ConditionFalse}
	switch {
	case silent != nil && silent.Reason != v1alpha1.ReasonSucceeded:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, silent.Reason, silent.Message
	case ready == nil:
		return nil
	case ready.Status == metav1.ConditionTrue && ready.Reason == v1alpha1.ReasonNotAssigned:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, ready.Reason, "No template or pin assigns firmware to a device of the node."
	case ready.Status == metav1.ConditionTrue:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonUpToDate, "Every device of the node with desired firmware runs it."
	case stuck != nil:
		c.Reason, c.Message = stuck.Reason, stuck.Message
	case ready.Reason == v1alpha1.ReasonReadFailed:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, ready.Reason, ready.Message
	case working != nil && working.Reason == v1alpha1.ReasonProgressing && !behind && was != nil && was.Status == corev1.ConditionTrue:
		return onNode(was)
	default:
		c.Reason, c.Message = v1alpha1.ReasonOutOfDate, ready.Message
	}
	c.Message = text.Clip(c.Message, maxMessage)
	if was != nil && c.Reason == v1alpha1.ReasonOutOfDate && was.Reason == c.Reason {
		return onNode(was) // what it waits for changes with each step of a rollout, and one write for each end of a job is enough
	}
	return c
}

func onNode(c *corev1.NodeCondition) *Condition {
	return &Condition{Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message}
}

// OnNode are the operator's conditions of a Node as they are wanted, with the times of those that were there and are the same.
func OnNode(was []corev1.NodeCondition, now time.Time, want ...Condition) []corev1.NodeCondition {
	at := metav1.NewTime(now.Truncate(time.Second))
	var out []corev1.NodeCondition
	for _, w := range want {
		c := corev1.NodeCondition{
			Type: corev1.NodeConditionType(w.Type), Status: corev1.ConditionStatus(w.Status), Reason: w.Reason, Message: w.Message,
			LastHeartbeatTime: at, LastTransitionTime: at,
		}
		for _, o := range was {
			if o.Type != c.Type || o.Status != c.Status {
				continue
			}
			c.LastTransitionTime = o.LastTransitionTime
			if o.Reason == c.Reason && o.Message == c.Message {
				c.LastHeartbeatTime = o.LastHeartbeatTime
			}
		}
		out = append(out, c)
	}
	return out
}
