package status

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// EndConditions are the condition types of a FirmwareJob that the operator takes over from a daemon that is gone.
var EndConditions = []string{v1alpha1.ConditionReady, v1alpha1.ConditionStalled, v1alpha1.ConditionFailed}

// EndedByOperator are those conditions that the operator wrote in place of the daemon: their reasons are its own.
func EndedByOperator(all []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool {
		return !slices.Contains(EndConditions, c.Type) || c.Reason != v1alpha1.ReasonNodeGone && c.Reason != v1alpha1.ReasonNoRunner
	})
}

// JobStranded are the conditions of a job that has begun and whose Node is gone. How it goes on is not known, so it has not ended.
func JobStranded(job, node string, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	message := fmt.Sprintf("Node %s does not exist any more, and the job had begun: its machine may still be at work, and the job keeps its "+
		"place in the budget. If the machine comes back, the job is reported again. If it does not, make sure that it is switched off, then run: "+
		"kubectl annotate firmwarejob %s %s=yes", node, job, v1alpha1.ConfirmGoneAnnotation)
	return Merge(old, generation, now, EndConditions, stalled(v1alpha1.ReasonNodeGone, message)...)
}

// JobNodeGone are the conditions of a job the operator ends because its Node does not exist any more, and with it the
// daemon that would report.
func JobNodeGone(node string, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	message := fmt.Sprintf("Node %s does not exist any more, so the job was ended. What it did on the machine is not known; "+
		"when the machine joins again, its devices are read again and what is still due is planned.", node)
	want := append(stalled(v1alpha1.ReasonNodeGone, message),
		Condition{v1alpha1.ConditionFailed, metav1.ConditionTrue, v1alpha1.ReasonNodeGone, message})
	return Merge(old, generation, now, EndConditions, want...)
}
