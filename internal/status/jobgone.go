package status

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// JobStranded are the conditions of a job that has begun and whose Node is gone. How it goes on is not known, so it has not ended.
func JobStranded(job, node string, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	message := fmt.Sprintf("Node %s does not exist any more, and the job had begun: its machine may still be at work, and the job keeps its "+
		"place in the budget. If the machine comes back, the job is reported again. If it does not, make sure that it is switched off, then run: "+
		"kubectl annotate firmwarejob %s %s=yes", node, job, v1alpha1.ConfirmGoneAnnotation)
	owned := []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled}
	return Merge(old, generation, now, owned, stalled(v1alpha1.ReasonNodeGone, message)...)
}

// JobNodeGone are the conditions of a job the operator ends because its Node does not exist any more, and with it the
// daemon that would report.
func JobNodeGone(node string, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	message := fmt.Sprintf("Node %s does not exist any more, so the job was ended. What it did on the machine is not known; "+
		"when the machine joins again, its devices are read again and what is still due is planned.", node)
	want := append(stalled(v1alpha1.ReasonNodeGone, message),
		Condition{v1alpha1.ConditionFailed, metav1.ConditionTrue, v1alpha1.ReasonNodeGone, message})
	if meta.FindStatusCondition(old, v1alpha1.ConditionMaintenanceReady) != nil {
		want = append(want, Condition{v1alpha1.ConditionMaintenanceReady, metav1.ConditionFalse, v1alpha1.ReasonReleased,
			"The maintenance ended with the Node."})
	}
	return Merge(old, generation, now, JobConditions, want...)
}
