package template

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// A template says which of its jobs waits longest, and why, as long as one does.
func TestATemplateSaysWhichJobWaitsLongestAndWhy(t *testing.T) {
	f := newFleet(t)
	f.node("a", map[string]string{"pool": "gpu"})
	f.source("s", imageFor(board, v1, 1))
	a := f.discover("a", board, running)
	tpl := f.template("t", "gpu", v1, "s")
	j := &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: "job-a"},
		Spec: v1alpha1.FirmwareJobSpec{Type: v1alpha1.JobTypeUpdate, NodeName: "a", Updates: []v1alpha1.DeviceUpdate{{
			Device: a, UniqueID: "u", Version: v1, Digest: digest(1), Downgrade: v1alpha1.DowngradeForbid,
			Origin: []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: "t", UID: string(tpl.UID), Generation: tpl.Generation, Rule: "cx6dx"}},
		}}},
	}
	f.create(j)
	f.startOperator()
	f.awaitTemplate("t", func(c *assert.CollectT, o *v1alpha1.FirmwareTemplate) {
		assert.Equal(c, &v1alpha1.WaitingJob{Job: "job-a", Node: "a", Policy: "default", Since: j.CreationTimestamp}, o.Status.OldestWaiting)
	})

	admitted := func(status metav1.ConditionStatus, reason string) {
		meta.SetStatusCondition(&j.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAdmitted, Status: status, Reason: reason, ObservedGeneration: j.Generation})
		require.NoError(t, f.Client.Status().Update(t.Context(), j))
	}
	admitted(metav1.ConditionFalse, v1alpha1.ReasonBudgetExhausted)
	f.awaitTemplate("t", func(c *assert.CollectT, o *v1alpha1.FirmwareTemplate) {
		if assert.NotNil(c, o.Status.OldestWaiting) {
			assert.Equal(c, v1alpha1.ReasonBudgetExhausted, o.Status.OldestWaiting.Reason)
		}
	})
	admitted(metav1.ConditionTrue, v1alpha1.ReasonAdmitted)
	f.awaitTemplate("t", func(c *assert.CollectT, o *v1alpha1.FirmwareTemplate) { assert.Nil(c, o.Status.OldestWaiting) })
}
