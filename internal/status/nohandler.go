package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// MachineName says what a machine is, for messages; m may be nil.
func MachineName(m *v1alpha1.Machine) string {
	if m == nil {
		return "a machine of unknown model"
	}
	return fmt.Sprintf("machine %q", strings.TrimSpace(cmp.Or(m.Vendor, "(unknown)")+" "+cmp.Or(m.Model, "(unknown)")))
}

// JobNoHandler are the conditions of a job that the operator ends before it has begun, because no image is configured that
// executes jobs on such a machine.
func JobNoHandler(node string, m *v1alpha1.Machine, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	message := fmt.Sprintf("No handler is configured for %s of node %s, so nothing was done. Add one to the file of the operator's --pod-handlers "+
		"and restart the operator; an update that is still desired is then planned again automatically.", MachineName(m), node)
	want := append(stalled(v1alpha1.ReasonNoRunner, message),
		Condition{v1alpha1.ConditionFailed, metav1.ConditionTrue, v1alpha1.ReasonNoRunner, message})
	return Merge(old, generation, now, EndConditions, want...)
}
