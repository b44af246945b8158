package operator

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// rolledBack ends a job as a daemon does after it rolled back and blamed the image.
func (p *process) rolledBack(j *v1alpha1.FirmwareJob, model string) {
	p.t.Helper()
	u := j.Spec.Task.Devices[0]
	s := v1alpha1.FirmwareJobStatus{Blamed: []v1alpha1.BlamedDevice{{Device: u.Name, Message: "the node did not boot it"}}}
	for kind, is := range map[string]metav1.ConditionStatus{
		v1alpha1.ConditionReady: metav1.ConditionFalse, v1alpha1.ConditionFailed: metav1.ConditionTrue, v1alpha1.ConditionRolledBack: metav1.ConditionTrue,
	} {
		s.Conditions = append(s.Conditions, metav1.Condition{Type: kind, Status: is, Reason: v1alpha1.ReasonUnhealthy, LastTransitionTime: metav1.Now()})
	}
	apitest.ApplyStatus(p.t, p.env.Client, v1alpha1.FieldOwnerDaemon, &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: j.Name}, Status: s})
}

func (p *process) jobs(node string) []v1alpha1.FirmwareJob {
	p.t.Helper()
	var list v1alpha1.FirmwareJobList
	require.NoError(p.t, p.env.Client.List(p.t.Context(), &list, client.MatchingFields{"spec.nodeName": node}))
	return list.Items
}

func (p *process) isAdmitted(node string) bool {
	p.t.Helper()
	for _, j := range p.jobs(node) {
		if meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionAdmitted) {
			return true
		}
	}
	return false
}

// B.3: with everything wired, an image that fails on one node reaches no other until a person lifts the quarantine.
func TestABadImageStopsTheFleetUntilItIsLifted(t *testing.T) {
	p := start(t, apitest.New(t), "daemon")
	p.eventually("the operator is ready", func() bool { return p.probe("/readyz") == http.StatusOK })
	p.node("n1")
	p.node("n2")
	p.assign()
	first, second := p.job("n1"), p.job("n2")
	require.True(t, p.isAdmitted("n1"))
	require.False(t, p.isAdmitted("n2"))

	p.rolledBack(first, "Lenovo:7X21")
	src := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: "bios"}}
	p.eventually("the source says so", func() bool { return p.get(src) && len(src.Status.Quarantine) == 1 })
	p.eventually("the queued job goes", func() bool { return !p.get(second) })
	policy := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	p.eventually("the place is free", func() bool { return p.get(policy) && len(policy.Status.Admitted) == 0 })
	d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "n2-bios"}}
	p.eventually("the device says why", func() bool {
		c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionBlocked)
		return p.get(d) && c != nil && c.Reason == v1alpha1.ReasonQuarantined
	})
	assert.Empty(t, p.jobs("n2"))

	before := src.DeepCopy()
	src.Spec.LiftQuarantine = "it was the switch"
	require.NoError(t, p.env.Client.Patch(t.Context(), src, client.MergeFrom(before)))
	p.eventually("the other node goes on", func() bool { return p.isAdmitted("n2") })
	p.eventually("the source says nothing any more", func() bool {
		return p.get(src) && meta.FindStatusCondition(src.Status.Conditions, v1alpha1.ConditionQuarantined) == nil
	})
	assert.Len(t, p.jobs("n1"), 1, "the node that failed needs a retry of its own")
	p.stop()
	require.NoError(t, <-p.done)
	p.done <- nil
}
