package nodecondition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// What the Node says of its maintenance follows from the objects alone, so that it is right again however often the operator is killed.
func TestLifecycle(t *testing.T) {
	is := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason}
	}
	admitted := is(v1alpha1.ConditionAdmitted, "True", v1alpha1.ReasonAdmitted)
	inMaintenance := is(v1alpha1.ConditionMaintenanceReady, "True", v1alpha1.ReasonSucceeded)
	failed := is(v1alpha1.ConditionFailed, "True", v1alpha1.ReasonUnhealthy)
	job := func(c ...metav1.Condition) *v1alpha1.FirmwareJob {
		return &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Status: v1alpha1.FirmwareJobStatus{Conditions: append(c, admitted)}}
	}
	withStep := func(name string) *v1alpha1.FirmwareJob {
		j := job()
		j.Status.Steps = []v1alpha1.JobStep{{Name: name}}
		return j
	}
	drains := func(request v1alpha1.MaintenanceRequestType, id string, state v1alpha1.MaintenanceState) *v1alpha1.NodeFirmware {
		return &v1alpha1.NodeFirmware{Status: v1alpha1.NodeFirmwareStatus{
			MaintenanceRequest: &v1alpha1.MaintenanceRequest{ID: "1", Type: request},
			Maintenance:        &v1alpha1.MaintenanceAnswer{RequestID: id, State: state, NodeUID: "u"},
		}}
	}
	const drain, release = v1alpha1.MaintenanceDrain, v1alpha1.MaintenanceRelease
	planned, draining, drained, in := v1alpha1.ConditionMaintenancePlanned, v1alpha1.ConditionDrainInProgress, v1alpha1.ConditionDrained, v1alpha1.ConditionMaintenanceInProgress
	for name, c := range map[string]struct {
		job      *v1alpha1.FirmwareJob
		firmware *v1alpha1.NodeFirmware
		uid      string
		free     bool
		others   []corev1.NodeCondition
		want     []string
	}{
		"no job has the node":              {firmware: drains(drain, "1", v1alpha1.MaintenanceDrained)},
		"it is admitted":                   {job: job(), want: []string{planned}},
		"it will take the node":            {job: withStep("maintenance"), want: []string{planned}},
		"it never takes the node":          {job: withStep("verify-firmware")},
		"the drain is refused":             {job: job(), firmware: drains(drain, "1", v1alpha1.MaintenanceRefused), want: []string{planned}},
		"the drain goes on":                {job: job(), firmware: drains(drain, "1", v1alpha1.MaintenanceDraining), want: []string{planned, draining}},
		"an earlier drain went on":         {job: job(), firmware: drains(drain, "0", v1alpha1.MaintenanceDraining), want: []string{planned}},
		"the drain of another Node":        {job: job(), firmware: drains(drain, "1", v1alpha1.MaintenanceDraining), uid: "v", want: []string{planned}},
		"somebody uncordons it":            {job: job(), firmware: drains(drain, "1", v1alpha1.MaintenanceDraining), free: true, want: []string{planned}},
		"it is drained":                    {job: job(), firmware: drains(drain, "1", v1alpha1.MaintenanceDrained), want: []string{drained, in}},
		"it is in maintenance":             {job: job(inMaintenance), firmware: drains(drain, "1", v1alpha1.MaintenanceDrained), want: []string{drained, in}},
		"another product drained it":       {job: job(inMaintenance), want: []string{in}},
		"it is to be returned":             {job: job(is(v1alpha1.ConditionMaintenanceReady, "False", v1alpha1.ReasonReleased)), firmware: drains(release, "1", v1alpha1.MaintenanceDrained)},
		"it was returned for an earlier":   {job: job(), firmware: drains(release, "1", v1alpha1.MaintenanceReleased), want: []string{planned}},
		"it is held":                       {job: job(failed, is(v1alpha1.ConditionHeld, "True", v1alpha1.ReasonUnhealthy)), firmware: drains(drain, "1", v1alpha1.MaintenanceDrained), want: []string{drained, in}},
		"somebody else plans too":          {job: job(), others: []corev1.NodeCondition{{Type: corev1.NodeConditionType(planned), Reason: "AdminRequested"}}},
		"what the operator said is no one": {job: job(), others: []corev1.NodeCondition{{Type: corev1.NodeConditionType(planned), Reason: v1alpha1.LifecycleReason}}, want: []string{planned}},
	} {
		t.Run(name, func(t *testing.T) {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: corev1.NodeSpec{Unschedulable: !c.free}, Status: corev1.NodeStatus{Conditions: c.others}}
			if c.uid != "" {
				n.UID = "v"
			}
			var got []string
			for _, is := range decide(facts{node: n, firmware: c.firmware, job: c.job}, time.Unix(100, 0)) {
				got = append(got, string(is.Type))
				assert.Equal(t, corev1.ConditionTrue, is.Status)
			}
			assert.Equal(t, c.want, got)
		})
	}
}
