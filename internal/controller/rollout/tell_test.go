package rollout_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// A job that waits for the budget alone is told nothing, since its policy counts it. One that was told something else before is told
// what it waits for now.
func TestTheBudgetIsNoReason(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(1), nil))
	w.nodes("n1", "n2", "n3")
	w.queue("job-1", "n1")
	w.queue("job-2", "n2")
	o := w.operator()
	o.pass()
	assert.Empty(t, w.job("job-2").Status.Conditions)
	assert.Equal(t, []v1alpha1.WaitingNodes{{Reason: v1alpha1.ReasonBudgetExhausted, Nodes: 1}}, w.policy("default").Status.Waiting)

	w.change("default", func(p *v1alpha1.RolloutPolicy) { p.Spec.State = v1alpha1.RolloutPaused })
	o.pass()
	w.queue("job-3", "n3")
	w.change("default", func(p *v1alpha1.RolloutPolicy) { p.Spec.State = v1alpha1.RolloutActive })
	o.pass()
	told := meta.FindStatusCondition(w.job("job-2").Status.Conditions, v1alpha1.ConditionAdmitted)
	require.NotNil(t, told)
	assert.Equal(t, v1alpha1.ReasonBudgetExhausted, told.Reason)
	assert.Empty(t, w.job("job-3").Status.Conditions)
}

// R000-54: a ledger waits for no job that cannot be told, and no job is told what an earlier pass decided.
func TestNoLedgerWaitsForAJob(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("gpu", intstr.FromInt32(2), map[string]string{"pool": "gpu"}))
	for i := range 3 {
		n := fmt.Sprintf("n%d", i)
		w.create(newNode(n, map[string]string{"pool": "gpu"}))
		w.queue("job-"+n, n)
	}
	o := w.operator()
	pass := func() {
		_, err := o.Reconciler.Reconcile(t.Context(), ctrl.Request{})
		require.NoError(t, err)
	}
	o.pass() // makes the default policy
	w.complete("job-n0")
	pass()
	assert.Equal(t, []string{"job-n1", "job-n2"}, w.ledger("gpu"), "the place is given to the next")
	assert.Equal(t, []string{"job-n1"}, w.admitted(), "that one is not told yet")

	w.report("job-n1", map[string]bool{v1alpha1.ConditionFailed: true, v1alpha1.ConditionReady: false, v1alpha1.ConditionComplete: false})
	w.change("gpu", func(p *v1alpha1.RolloutPolicy) { p.Spec.State = v1alpha1.RolloutPaused })
	pass()
	assert.Equal(t, []string{"job-n2"}, w.ledger("gpu"), "the other place is given back meanwhile")

	// Another process, whose predecessor told nobody, finds the place in the ledger.
	next := w.operator()
	next.pass()
	assert.Equal(t, v1alpha1.ReasonAdmitted, w.reason("job-n2"))
	version := w.job("job-n2").ResourceVersion
	again, err := o.Tell(t.Context())
	require.NoError(t, err)
	assert.True(t, again, "what the first one decided about the job before is decided anew")
	assert.Equal(t, version, w.job("job-n2").ResourceVersion)
}
