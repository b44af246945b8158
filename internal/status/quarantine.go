package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// QuarantineConditions are the condition types of a FirmwareQuarantine.
var QuarantineConditions = []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled}

// Quarantine maps a FirmwareQuarantine to its conditions. There is nothing to wait for: it is Ready once it was looked at, and the reason
// says whether it keeps the image from any node.
func Quarantine(q *v1alpha1.FirmwareQuarantine, now time.Time) []metav1.Condition {
	reason := v1alpha1.ReasonSucceeded
	if quarantine.InForce(q, "") {
		reason = v1alpha1.ReasonQuarantined
	}
	return Merge(q.Status.Conditions, q.Generation, now, QuarantineConditions,
		Condition{v1alpha1.ConditionReady, metav1.ConditionTrue, reason, QuarantineMessage(q)})
}

// QuarantineMessage says on which nodes the image is not flashed, why, and what a person can do.
func QuarantineMessage(q *v1alpha1.FirmwareQuarantine) string {
	r := quarantine.First(q)
	const confirm = "Confirmed forbids it on every node."
	lift := " If the image is not at fault: " + quarantine.Lift(q)
	if q.Spec.State == v1alpha1.QuarantineLifted {
		lift = " It was reported since it was lifted. If the image is not at fault: " + quarantine.Lift(q)
	}
	switch {
	case q.Spec.State == v1alpha1.QuarantineConfirmed:
		return "Flashed on no node: a person confirmed it." + lift
	case r == nil && len(q.Status.Reports) == 0:
		return "Flashed on every node: nobody reported it. The state " + confirm
	case r == nil && slices.ContainsFunc(q.Status.Reports, func(r v1alpha1.QuarantineReport) bool { return r.State == v1alpha1.ReportLifted }):
		return "Flashed on every node: a person lifted what was reported. The next report counts again."
	case r == nil:
		return "Flashed on every node: what was reported was withdrawn, because the previous firmware was as unhealthy."
	case q.Status.Scope == v1alpha1.QuarantineNone:
		return fmt.Sprintf("Flashed on every node: %s in job %s, which may have another cause. A second node quarantines it; the state %s",
			unsure(r), r.Job, confirm)
	case q.Status.Scope == v1alpha1.QuarantinePolicies:
		return fmt.Sprintf("Flashed on no node of policy %s: %s. The state %s%s", strings.Join(quarantine.Policies(q), ", "), reported(q, r), confirm, lift)
	}
	return fmt.Sprintf("Flashed on no node: %s.%s", reported(q, r), lift)
}

// unsure says what a report that is not enough by itself rests on.
func unsure(r *v1alpha1.QuarantineReport) string {
	if r.Evidence == v1alpha1.EvidenceNode {
		return fmt.Sprintf("node %s was unhealthy, and nothing named the device", r.Node)
	}
	return fmt.Sprintf("node %s missed only its network", r.Node)
}

// reported is who reported the image, and why.
func reported(q *v1alpha1.FirmwareQuarantine, first *v1alpha1.QuarantineReport) string {
	out := fmt.Sprintf("job %s on node %s", first.Job, first.Node)
	if first.Message != "" {
		out += ": " + strings.TrimSuffix(first.Message, ".")
	}
	others := map[string]bool{}
	for _, r := range q.Status.Reports {
		if r.State == v1alpha1.ReportCounted && r.Node != first.Node {
			others[r.Node] = true
		}
	}
	if len(others) > 0 {
		out += fmt.Sprintf("; %s it too", text.Quantity(len(others), "other node reported", "other nodes reported"))
	}
	return out
}
