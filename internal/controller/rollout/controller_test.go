package rollout_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

func TestTheDefaultPolicyIsCreatedAndThenLeftAlone(t *testing.T) {
	w := newWorld(t)
	o := w.operator()
	o.pass()
	p := w.policy("default")
	assert.Equal(t, intstr.FromInt32(1), *p.Spec.MaxUnavailable)
	assert.Equal(t, v1alpha1.RolloutActive, p.Spec.State)
	w.change("default", func(p *v1alpha1.RolloutPolicy) { *p.Spec.MaxUnavailable = intstr.FromString("0%") })
	o.pass()
	assert.Equal(t, intstr.FromString("0%"), *w.policy("default").Spec.MaxUnavailable)
	w.requireStatus(o, "default", status.CurrentStatus)
}

func TestJobsAreAdmittedWithinTheBudgetAndTheOthersSayWhyTheyWait(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(2), nil))
	w.nodes("n1", "n2", "n3")
	for _, n := range []string{"1", "2", "3"} {
		w.queue("job-"+n, "n"+n)
	}
	o := w.operator()
	o.pass()
	assert.Equal(t, []string{"job-1", "job-2"}, w.admitted())
	assert.Equal(t, v1alpha1.ReasonBudgetExhausted, w.reason("job-3"))
	s := w.policy("default").Status
	assert.Equal(t, []v1alpha1.WaitingNodes{{Reason: v1alpha1.ReasonBudgetExhausted, Nodes: 1}}, s.Waiting)
	assert.Equal(t, &v1alpha1.RolloutNodes{Selected: 3, Budget: 2, Unavailable: 2, Queued: 1}, s.Nodes)
	assert.Empty(t, o.events.Events, "the condition says it, and an event would be one more write for each admission")
	apitest.RequireStatus(t, w.policy("default"), status.InProgressStatus)

	w.complete("job-1")
	o.pass()
	assert.Equal(t, []string{"job-2", "job-3"}, w.ledger("default"))
	w.complete("job-2")
	w.complete("job-3")
	o.pass()
	assert.Empty(t, w.ledger("default"))
	w.requireStatus(o, "default", status.CurrentStatus)
}

// F12, I3: whoever else works at the same time, and however stale a view is.
func TestTwoOperatorsAtOnceNeverExceedTheBudget(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(2), nil))
	var jobs []string
	for i := range 6 {
		n := fmt.Sprintf("n%d", i)
		w.nodes(n)
		jobs = append(jobs, w.queue("job-"+n, n).Name)
	}
	old, young := w.operator(), w.operator()
	require.NoError(t, old.view.freeze(t.Context())) // it never sees a job end, nor a condition
	for _, j := range jobs {
		old.direct.afterList = young.pass // between its reading of the ledger and its writing
		_, err := old.Reconcile(t.Context(), ctrl.Request{})
		require.NoError(t, err)
		young.direct.afterList = func() { _, _ = old.Reconcile(t.Context(), ctrl.Request{}) }
		young.pass()
		running := w.admitted()
		assert.LessOrEqual(t, len(running), 2)
		assert.Subset(t, w.ledger("default"), running, "nothing runs without a place")
		assert.LessOrEqual(t, len(w.ledger("default")), 2)
		w.complete(j)
	}
	require.NoError(t, old.view.freeze(t.Context()))
	young.pass()
	assert.Empty(t, w.ledger("default"))
	w.requireStatus(young, "default", status.CurrentStatus)
}

// R000-54: two operators that disagree about a node's pool would enter it in two ledgers.
func TestOneJobANodeEvenWhenTwoOperatorsDisagreeAboutItsPool(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("a", intstr.FromInt32(5), map[string]string{"pool": "a"}), newPolicy("b", intstr.FromInt32(5), map[string]string{"pool": "b"}))
	w.create(newNode("n", map[string]string{"pool": "a"}))
	w.queue("job-a", "n")
	old := w.operator()
	require.NoError(t, old.view.freeze(t.Context()))
	w.create(newPolicy("default", intstr.FromInt32(1), nil))
	require.NoError(t, w.Delete(t.Context(), w.job("job-a")))
	w.queue("job-b", "n")
	n := newNode("n", map[string]string{"pool": "b"})
	require.NoError(t, w.Patch(t.Context(), n, client.MergeFrom(newNode("n", map[string]string{"pool": "a"}))))
	w.queue("job-z", "n")
	old.view.jobs.Items[0] = *w.job("job-z") // it knows only one of the two

	young := w.operator()
	old.direct.afterList = young.pass
	_, err := old.Reconcile(t.Context(), ctrl.Request{})
	require.NoError(t, err)
	assert.Equal(t, []string{"job-b"}, w.admitted())
	assert.Empty(t, w.ledger("a"), "the second one withdraws")
	assert.Equal(t, []string{"job-b"}, w.ledger("b"))
	young.pass()
	assert.Equal(t, v1alpha1.ReasonNodeBusy, w.reason("job-z"))
	w.requireStatus(young, "b", status.InProgressStatus)
}

func TestACrashBetweenLedgerAndConditionIsRepaired(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(1), nil))
	w.nodes("n1", "n2")
	w.queue("job-1", "n1")
	w.queue("job-2", "n2")
	dying := w.operator()
	dying.view.dies = true
	_, err := dying.Reconcile(t.Context(), ctrl.Request{})
	require.ErrorIs(t, err, errCrash)
	require.Equal(t, []string{"job-1"}, w.ledger("default"), "the intent is durable")
	require.Empty(t, w.admitted())
	w.change("default", func(p *v1alpha1.RolloutPolicy) { p.Spec.State = v1alpha1.RolloutPaused })

	next := w.operator()
	next.pass()
	assert.Equal(t, []string{"job-1"}, w.admitted(), "an entry is an admission, whatever came after it")
	assert.Equal(t, v1alpha1.ReasonPaused, w.reason("job-2"))
	w.requireStatus(next, "default", status.CurrentStatus)
}

func TestAJobIsNotAdmittedInPlaceOfAnotherOfItsName(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(1), nil))
	w.nodes("n1")
	w.queue("job", "n1")
	late := w.operator()
	require.NoError(t, late.view.freeze(t.Context()))
	require.NoError(t, w.Delete(t.Context(), w.job("job")))
	w.queue("job", "n1")
	_, err := late.Reconcile(t.Context(), ctrl.Request{})
	require.NoError(t, err)
	assert.Equal(t, "unset", w.reason("job"), "its place in the ledger is the other one's")

	o := w.operator()
	o.pass()
	o.pass()
	assert.Equal(t, []string{"job"}, w.admitted())
	w.complete("job")
	o.pass()
	w.requireStatus(o, "default", status.CurrentStatus)
}

func TestACacheThatLacksAJobDoesNotFreeItsPlace(t *testing.T) {
	w := newWorld(t)
	w.nodes("n1", "n2")
	behind := w.operator()
	require.NoError(t, behind.view.freeze(t.Context())) // before any job
	w.queue("job-1", "n1")
	w.operator().pass()
	require.Equal(t, []string{"job-1"}, w.ledger("default"))
	behind.view.nodes.Items = nil
	behind.pass()
	assert.Equal(t, []string{"job-1"}, w.ledger("default"), "the API server says that job and node exist")
	w.complete("job-1")
	behind.pass()
	assert.Empty(t, w.ledger("default"))
	rested := w.operator()
	rested.pass()
	w.requireStatus(rested, "default", status.CurrentStatus)
}

func TestGoneNodeOrJobFreesPlace(t *testing.T) {
	w := newWorld(t)
	w.nodes("n1", "n2", "n3")
	w.queue("job-1", "n1")
	o := w.operator()
	o.pass()
	w.queue("job-2", "n2")
	w.queue("job-3", "n3")
	o.pass()
	require.Equal(t, []string{"job-1"}, w.ledger("default"))
	w.complete("job-1")
	o.pass()
	require.Equal(t, []string{"job-2"}, w.ledger("default"))
	w.hold("job-2")
	o.pass()
	require.Equal(t, []string{"job-2"}, w.ledger("default"))
	require.NoError(t, w.Delete(t.Context(), newNode("n2", nil)))
	o.pass()
	assert.Equal(t, []string{"job-3"}, w.ledger("default"), "nothing is at work on a held node that was deleted")
	w.requireStatus(o, "default", status.InProgressStatus)
}

// Deleting a job that may have begun, or its Node, does not stop the machine: its place is free only when the work is over.
func TestADeletedJobKeepsItsPlaceUntilItsNodeHasLetGo(t *testing.T) {
	w := newWorld(t)
	w.nodes("n1", "n2")
	w.queue("job-1", "n1")
	o := w.operator()
	o.pass()
	w.queue("job-2", "n2")
	w.delete("job-1")
	o.pass()
	assert.Equal(t, []string{"job-1"}, w.ledger("default"), "it is asked to stop and still runs")
	require.NoError(t, w.Delete(t.Context(), newNode("n1", nil)))
	o.pass()
	assert.Equal(t, []string{"job-1"}, w.ledger("default"), "the machine goes on without its Node")
	assert.Equal(t, v1alpha1.ReasonBudgetExhausted, w.reason("job-2"))
	w.complete("job-1")
	o.pass()
	assert.Equal(t, []string{"job-2"}, w.ledger("default"))
	w.requireStatus(o, "default", status.InProgressStatus)
}

// Somebody takes the finalizer away. The daemon reports the job in the status of its node.
func TestAJobThatWasDeletedByForceKeepsItsPlaceWhileItsNodeReportsIt(t *testing.T) {
	w := newWorld(t)
	w.nodes("n1", "n2")
	w.queue("job-1", "n1")
	o := w.operator()
	o.pass()
	w.queue("job-2", "n2")
	node := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	w.create(node)
	node.Status.CurrentStep = &v1alpha1.CurrentStep{Job: "job-1", Name: "flash"}
	require.NoError(t, w.Status().Update(t.Context(), node))
	require.Equal(t, []string{v1alpha1.JobFinalizer}, w.job("job-1").Finalizers)
	w.delete("job-1")
	w.takeFinalizer("job-1")
	o.pass()
	assert.Equal(t, []string{"job-1"}, w.ledger("default"))
	node.Status.CurrentStep = nil
	require.NoError(t, w.Status().Update(t.Context(), node))
	o.pass()
	assert.Equal(t, []string{"job-2"}, w.ledger("default"))
	w.requireStatus(o, "default", status.InProgressStatus)
}

func TestAPausedPolicyAdmitsNothingAndLetsFinishWhatRuns(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(2), nil))
	w.nodes("n1", "n2")
	w.queue("job-1", "n1")
	o := w.operator()
	o.pass()
	w.change("default", func(p *v1alpha1.RolloutPolicy) { p.Spec.State = v1alpha1.RolloutPaused })
	w.queue("job-2", "n2")
	o.pass()
	assert.Equal(t, []string{"job-1"}, w.admitted())
	assert.Equal(t, v1alpha1.ReasonPaused, w.reason("job-2"))
	apitest.RequireStatus(t, w.policy("default"), status.CurrentStatus)

	// The pause arrives after the operator read the ledger: its write must lose.
	w.change("default", func(p *v1alpha1.RolloutPolicy) { p.Spec.State = v1alpha1.RolloutActive })
	o.direct.afterList = func() {
		w.change("default", func(p *v1alpha1.RolloutPolicy) { p.Spec.State = v1alpha1.RolloutPaused })
	}
	o.pass()
	assert.Equal(t, []string{"job-1"}, w.ledger("default"))

	w.change("default", func(p *v1alpha1.RolloutPolicy) { p.Spec.State = v1alpha1.RolloutActive })
	o.pass()
	assert.Equal(t, []string{"job-1", "job-2"}, w.admitted())
	w.requireStatus(o, "default", status.InProgressStatus)
}

func TestAPercentageIsOfThePool(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("gpu", intstr.FromString("40%"), map[string]string{"pool": "gpu"}))
	for i := range 5 {
		n := fmt.Sprintf("g%d", i)
		w.create(newNode(n, map[string]string{"pool": "gpu"}))
		w.queue("job-"+n, n)
	}
	w.nodes("other")
	o := w.operator()
	o.pass()
	assert.Equal(t, []string{"job-g0", "job-g1"}, w.admitted())
	w.change("gpu", func(p *v1alpha1.RolloutPolicy) { *p.Spec.MaxUnavailable = intstr.FromString("0%") })
	o.pass()
	assert.Len(t, w.ledger("gpu"), 2, "a smaller budget takes no place away")
	w.requireStatus(o, "gpu", status.FailedStatus)
}

func TestNodesTwoPoliciesChooseWaitAndBothPoliciesSaySo(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("gpu", intstr.FromInt32(1), map[string]string{"pool": "gpu"}), newPolicy("zone", intstr.FromInt32(1), map[string]string{"zone": "a"}))
	w.create(newNode("n", map[string]string{"pool": "gpu", "zone": "a"}))
	w.queue("job", "n")
	o := w.operator()
	o.pass()
	assert.Equal(t, v1alpha1.ReasonConflict, w.reason("job"))
	for policy, other := range map[string]string{"gpu": "zone", "zone": "gpu"} {
		c := meta.FindStatusCondition(w.policy(policy).Status.Conditions, v1alpha1.ConditionConflict)
		require.NotNil(t, c)
		assert.Contains(t, c.Message, other)
		apitest.RequireStatus(t, w.policy(policy), status.FailedStatus)
	}
	assert.Len(t, o.events.Events, 2, "one event for each policy")
	require.NoError(t, w.Delete(t.Context(), w.policy("zone")))
	o.pass()
	assert.Equal(t, []string{"job"}, w.admitted())
	assert.Nil(t, meta.FindStatusCondition(w.policy("gpu").Status.Conditions, v1alpha1.ConditionConflict))
	w.requireStatus(o, "gpu", status.InProgressStatus)
}

func TestAPolicyWithoutASelectorChoosesEveryNode(t *testing.T) {
	w := newWorld(t)
	freeze := newPolicy("freeze", intstr.FromInt32(1), nil)
	freeze.Spec.State = v1alpha1.RolloutPaused
	w.create(freeze)
	w.nodes("n1", "n2")
	w.queue("job", "n1")
	o := w.operator()
	o.pass()
	assert.Equal(t, v1alpha1.ReasonPaused, w.reason("job"))
	assert.Empty(t, w.admitted())
	assert.EqualValues(t, 2, w.policy("freeze").Status.Nodes.Selected)
	assert.Zero(t, w.policy("default").Status.Nodes.Selected)
	assert.Equal(t, v1alpha1.Requirements{v1alpha1.RequireUnlock}, schedule.SettingsOf([]v1alpha1.RolloutPolicy{*w.policy("freeze")}, nil).Require)
	w.change("freeze", func(p *v1alpha1.RolloutPolicy) {
		p.Spec.Require = v1alpha1.Requirements{v1alpha1.RequireWriteProtection, v1alpha1.RequireRollback}
	})
	o.pass()
	both := []v1alpha1.RolloutPolicy{*newPolicy("lenient", intstr.FromInt32(1), nil), *w.policy("freeze")}
	for range 2 { // of two policies that select a node the strictest counts, whatever their order
		settings := schedule.SettingsOf(both, nil)
		assert.Equal(t, v1alpha1.Requirements{v1alpha1.RequireRollback, v1alpha1.RequireWriteProtection}, settings.Require)
		slices.Reverse(both)
	}
	w.requireStatus(o, "freeze", status.CurrentStatus)
}

func TestAnInvalidSelectorIsNamedAndStopsOnlyNodesItMayBeMeantFor(t *testing.T) {
	for name, selector := range map[string]*metav1.LabelSelector{
		"expression": {
			MatchLabels:      map[string]string{"pool": "prod"},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "Within a", Operator: metav1.LabelSelectorOpExists}},
		},
		"label": {
			MatchLabels:      map[string]string{"zone": "Within a"},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: metav1.LabelSelectorOpIn, Values: []string{"prod"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := newPolicy("bad", intstr.FromInt32(1), nil)
			p.Spec.NodeSelector = selector
			w.create(p, newNode("n", map[string]string{"pool": "prod"}), newNode("other", nil))
			w.queue("job", "n")
			w.queue("free", "other")
			o := w.operator()
			o.pass()
			assert.Equal(t, v1alpha1.ReasonInvalidSpec, w.reason("job"))
			assert.Equal(t, []string{"free"}, w.admitted())
			assert.Contains(t, meta.FindStatusCondition(w.policy("bad").Status.Conditions, v1alpha1.ConditionReady).Message, "Within")
			w.requireStatus(o, "bad", status.FailedStatus)
		})
	}
}

func TestWaitingJobSaysWhatFor(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("a", intstr.FromInt32(0), map[string]string{"pool": "a"}), newPolicy("b", intstr.FromInt32(0), map[string]string{"pool": "b"}))
	n := newNode("n", map[string]string{"pool": "a"})
	w.create(n)
	for i := range 3 {
		w.queue(fmt.Sprintf("job-%d", i), "n")
	}
	o := w.operator()
	o.pass()
	assert.Contains(t, w.message("job-0"), "Policy a ")
	assert.Contains(t, w.message("job-2"), "job job-0 ")

	n.Labels["pool"] = "b"
	require.NoError(t, w.Update(t.Context(), n))
	require.NoError(t, w.Delete(t.Context(), w.job("job-0")))
	o.pass()
	assert.Contains(t, w.message("job-1"), "Policy b ")
	assert.Contains(t, w.message("job-2"), "job job-1 ", "the reason is the same, the job that goes first is not")
	w.requireStatus(o, "b", status.FailedStatus)
}

func TestAHeldNodeKeepsItsPlaceUntilARetryTakesItOver(t *testing.T) {
	w := newWorld(t)
	w.nodes("n1", "n2")
	w.queue("job-1", "n1")
	o := w.operator()
	o.pass()
	w.hold("job-1")
	w.queue("job-2", "n2")
	o.pass()
	assert.Equal(t, []string{"job-1"}, w.ledger("default"))
	assert.Equal(t, v1alpha1.ReasonBudgetExhausted, w.reason("job-2"))
	apitest.RequireStatus(t, w.policy("default"), status.FailedStatus)
	assert.Contains(t, meta.FindStatusCondition(w.policy("default").Status.Conditions, v1alpha1.ConditionReady).Message, `\"release\"`)

	w.queue("retry", "n1")
	o.pass()
	assert.Equal(t, []string{"retry"}, w.ledger("default"))
	assert.Contains(t, w.admitted(), "retry")
	w.report("job-1", map[string]bool{v1alpha1.ConditionReady: false, v1alpha1.ConditionFailed: true, v1alpha1.ConditionStalled: true}) // superseded
	w.complete("retry")
	o.pass()
	assert.Equal(t, []string{"job-2"}, w.ledger("default"), "the failed job that was followed is not taken up again")
	w.complete("job-2")
	o.pass()
	w.requireStatus(o, "default", status.CurrentStatus)
}

func TestReleasedNodeFreesPlace(t *testing.T) {
	w := newWorld(t)
	w.nodes("n1")
	w.queue("job-1", "n1")
	o := w.operator()
	o.pass()
	w.hold("job-1")
	o.pass()
	w.report("job-1", map[string]bool{v1alpha1.ConditionReady: false, v1alpha1.ConditionFailed: true, v1alpha1.ConditionStalled: true})
	o.pass()
	assert.Empty(t, w.ledger("default"))
	w.requireStatus(o, "default", status.CurrentStatus)
}

func TestKeepsJobsOfDeletedPolicy(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("gpu", intstr.FromInt32(1), map[string]string{"pool": "gpu"}), newNode("n", map[string]string{"pool": "gpu"}))
	w.nodes("m")
	w.queue("job", "n")
	o := w.operator()
	o.pass()
	require.NoError(t, w.Delete(t.Context(), w.policy("gpu")))
	w.queue("next", "m")
	o.pass()
	assert.Equal(t, []string{"job"}, w.ledger("default"))
	assert.Equal(t, v1alpha1.ReasonBudgetExhausted, w.reason("next"))
	w.requireStatus(o, "default", status.InProgressStatus)
}

// The operator's condition and the daemon's live in one list without disturbing each other.
func TestTheDaemonsConditionsStay(t *testing.T) {
	w := newWorld(t)
	w.nodes("n1")
	w.queue("job-1", "n1")
	w.report("job-1", map[string]bool{v1alpha1.ConditionReady: false})
	o := w.operator()
	o.pass()
	w.report("job-1", map[string]bool{v1alpha1.ConditionReady: false, v1alpha1.ConditionReconciling: true})
	var types []string
	for _, c := range w.job("job-1").Status.Conditions {
		types = append(types, c.Type)
	}
	assert.ElementsMatch(t, []string{v1alpha1.ConditionAdmitted, v1alpha1.ConditionReady, v1alpha1.ConditionReconciling}, types)
	w.requireStatus(o, "default", status.InProgressStatus)
}

// A report of the daemon that the cache has not seen starts no pass by itself, since progress changes no decision.
func TestAConditionThatMetAnotherWriteIsWrittenByTheNextPass(t *testing.T) {
	for budget, want := range map[int32]string{0: v1alpha1.ReasonBudgetExhausted, 1: v1alpha1.ReasonAdmitted} {
		t.Run(want, func(t *testing.T) {
			w := newWorld(t)
			w.create(newPolicy("default", intstr.FromInt32(budget), nil))
			w.nodes("n1")
			w.queue("job-1", "n1")
			o := w.operator()
			require.NoError(t, o.view.freeze(t.Context()))
			w.report("job-1", map[string]bool{v1alpha1.ConditionReady: false})
			result, err := o.Reconcile(t.Context(), ctrl.Request{})
			require.NoError(t, err)
			assert.NotZero(t, result.RequeueAfter)
			o.view.nodes, o.view.jobs = nil, nil
			o.pass()
			assert.Equal(t, want, w.reason("job-1"))
		})
	}
}

// The conditions of thousands of waiting jobs are written beside the passes, and none twice while the cache is behind.
func TestTheConditionOfAWaitingJobIsWrittenOnce(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(0), nil))
	for i := range 20 {
		n := fmt.Sprintf("n%03d", i)
		w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}})
		w.queue("job-"+n, n)
	}
	o := w.operator()
	require.NoError(t, o.view.freeze(t.Context()))
	_, err := o.Reconciler.Reconcile(t.Context(), ctrl.Request{})
	require.NoError(t, err)
	assert.EqualValues(t, 20, w.policy("default").Status.Nodes.Queued)
	assert.Empty(t, w.job("job-n019").Status.Conditions, "the pass writes to the policy alone")
	o.pass()
	versions := w.versions()
	o.pass()
	assert.Equal(t, versions, w.versions(), "the stale cache makes no second write")
	assert.Contains(t, w.message("job-n019"), "maxUnavailable is 0")
	w.requireStatus(o, "default", status.FailedStatus)
}
