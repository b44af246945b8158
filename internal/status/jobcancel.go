package status

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// jobCancelling says what a cancellation waits for.
func jobCancelling(f JobFacts) []Condition {
	c := Condition{Type: v1alpha1.ConditionCancelling, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWaitingForStep}
	switch {
	case f.Outcome != "" || f.Cancelling == "":
		return nil
	case f.Cancelling == step.GracePeriod:
		c.Message = fmt.Sprintf("Step %s has until %s to end by itself, and no other step begins. Set spec.cancel.mode to Force to end it at once.",
			f.Step, f.GraceUntil.UTC().Format(time.RFC3339))
	case f.Failure != nil:
		c.Message = fmt.Sprintf("The job has already failed, and step %s, which follows from that, cannot be cancelled. Wait for it to end.", f.Step)
	case f.Cancelling == step.WriteRunning && f.CancelForce:
		c.Message = fmt.Sprintf("Step %s writes to the hardware and is never interrupted, not even by force. The job ends right after the write and holds the node.",
			f.Step)
	case f.Cancelling == step.WriteRunning:
		c.Message = fmt.Sprintf("Step %s writes to the hardware and is never interrupted. The job ends right after the step and holds the node.", f.Step)
	default:
		c.Message = fmt.Sprintf("Step %s may not be interrupted. The job ends right after it.", f.Step)
	}
	return []Condition{c}
}
