package status

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Who reads the list at night sees where the image goes, what happened, and what to type.
func TestQuarantineMessages(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	report := func(job, node, policy string, state v1alpha1.ReportState) v1alpha1.QuarantineReport {
		return v1alpha1.QuarantineReport{Job: job, Node: node, Policy: policy, Message: "link of port 1 is down.", State: state}
	}
	a, b := report("a-1", "a", "gpu", v1alpha1.ReportCounted), report("b-1", "b", "web", v1alpha1.ReportCounted)
	lifted, withdrawn := report("c-1", "c", "gpu", v1alpha1.ReportLifted), report("d-1", "d", "gpu", v1alpha1.ReportWithdrawn)
	const lifts = `kubectl patch fwq q --type merge -p '{"spec":{"state":"Lifted"}}'`
	const lift, confirm = " If the image is not at fault: " + lifts, "Confirmed forbids it on every node."
	for want, c := range map[string]struct {
		state   v1alpha1.QuarantineState
		scope   v1alpha1.QuarantineScope
		reports []v1alpha1.QuarantineReport
	}{
		"Flashed on no node of policy gpu: job a-1 on node a: link of port 1 is down. The state " + confirm + lift: {
			v1alpha1.QuarantineActive, v1alpha1.QuarantinePolicies, []v1alpha1.QuarantineReport{lifted, a},
		},
		"Flashed on no node: job a-1 on node a: link of port 1 is down; 1 other node reported it too." + lift: {
			v1alpha1.QuarantineActive, v1alpha1.QuarantineFleet, []v1alpha1.QuarantineReport{a, b},
		},
		"Flashed on no node: a person confirmed it." + lift: {v1alpha1.QuarantineConfirmed, v1alpha1.QuarantineFleet, nil},
		"Flashed on no node of policy gpu: job a-1 on node a: link of port 1 is down. The state " + confirm + " It was reported since it was " +
			"lifted. If the image is not at fault: " + strings.ReplaceAll(lifts, "Lifted", "Active") + " && " + lifts: {
			v1alpha1.QuarantineLifted, v1alpha1.QuarantinePolicies, []v1alpha1.QuarantineReport{a},
		},
		"Flashed on every node: node a missed only its network in job a-1, which may have another cause. A second node quarantines it; the state " + confirm: {
			v1alpha1.QuarantineActive, v1alpha1.QuarantineNone, []v1alpha1.QuarantineReport{a},
		},
		"Flashed on every node: a person lifted what was reported. The next report counts again.": {
			v1alpha1.QuarantineLifted, v1alpha1.QuarantineNone, []v1alpha1.QuarantineReport{lifted, withdrawn},
		},
		"Flashed on every node: what was reported was withdrawn, because the previous firmware was as unhealthy.": {
			v1alpha1.QuarantineActive, v1alpha1.QuarantineNone, []v1alpha1.QuarantineReport{withdrawn},
		},
		"Flashed on every node: nobody reported it. The state " + confirm: {v1alpha1.QuarantineActive, v1alpha1.QuarantineNone, nil},
	} {
		q := &v1alpha1.FirmwareQuarantine{
			ObjectMeta: metav1.ObjectMeta{Name: "q", Generation: 3}, Spec: v1alpha1.FirmwareQuarantineSpec{State: c.state},
			Status: v1alpha1.FirmwareQuarantineStatus{Scope: c.scope, Reports: c.reports},
		}
		got := Quarantine(q, now)
		require.Len(t, got, 1, "nothing is ever waited for")
		ready := meta.FindStatusCondition(got, v1alpha1.ConditionReady)
		assert.Equal(t, want, ready.Message)
		assert.Equal(t, metav1.ConditionTrue, ready.Status)
		assert.Equal(t, int64(3), ready.ObservedGeneration)
		isInForce := c.scope != v1alpha1.QuarantineNone
		assert.Equal(t, map[bool]string{true: v1alpha1.ReasonQuarantined, false: v1alpha1.ReasonSucceeded}[isInForce], ready.Reason)
	}
}
