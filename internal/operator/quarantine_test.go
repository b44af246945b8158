package operator

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// waiting is the job of a node that has not ended; nil for none.
func (p *process) waiting(node string) *v1alpha1.FirmwareJob {
	p.t.Helper()
	for _, j := range p.jobs(node) {
		if !j.Ended() {
			return &j
		}
	}
	return nil
}

// admitted waits until a node has an admitted job, and gives that.
func (p *process) admitted(nodes ...string) (out *v1alpha1.FirmwareJob) {
	p.t.Helper()
	p.eventually(fmt.Sprint("one of these is admitted: ", nodes), func() bool {
		for _, n := range nodes {
			if out = p.waiting(n); out != nil && out.Admitted() {
				return true
			}
		}
		return false
	})
	return out
}

// awaitBlocked waits until nothing is planned for the node, and its device says why.
func (p *process) awaitBlocked(node string) {
	p.t.Helper()
	d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: node + "-bios"}}
	p.eventually(node+" is blocked", func() bool {
		if !p.get(d) {
			return false
		}
		c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionBlocked)
		return c != nil && c.Reason == v1alpha1.ReasonQuarantined && p.waiting(node) == nil
	})
}

// awaitScope waits until the one quarantine has that scope and was looked at, and gives it.
func (p *process) awaitScope(scope v1alpha1.QuarantineScope) *v1alpha1.FirmwareQuarantine {
	p.t.Helper()
	q := &v1alpha1.FirmwareQuarantine{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.QuarantineName(biosImage(), "lenovo:7x21")}}
	p.eventually("the scope is "+string(scope), func() bool {
		return p.get(q) && q.Status.Scope == scope && q.Status.ObservedGeneration == q.Generation
	})
	apitest.RequireStatus(p.t, q, status.CurrentStatus)
	return q
}

// rollout makes a policy, and waits until the operator knows it: a job of its nodes would be admitted under another one before.
func (p *process) rollout(name string, spec v1alpha1.RolloutPolicySpec) {
	p.t.Helper()
	r := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	require.NoError(p.t, p.env.Client.Create(p.t.Context(), r))
	p.eventually("the operator knows the policy "+name, func() bool { return p.get(r) && r.Status.ObservedGeneration == r.Generation })
}

// decide is a person who sets the state of the quarantine.
func (p *process) decide(state v1alpha1.QuarantineState) {
	p.t.Helper()
	q := &v1alpha1.FirmwareQuarantine{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.QuarantineName(biosImage(), "lenovo:7x21")}}
	require.NoError(p.t, p.env.Client.Patch(p.t.Context(), q, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"state":%q}}`, state))))
}

// R002-26: An image that failed is quarantined. With everything wired, an image that fails on one node reaches no other of its policy, and
// from the second node on none, until a person lifts that; and no job, source or accident takes the quarantine away.
func TestLifeOfAQuarantine(t *testing.T) {
	p := start(t, apitest.New(t), "daemon")
	p.eventually("the operator is ready", func() bool { return p.probe("/readyz") == http.StatusOK })
	p.rollout("gpu", v1alpha1.RolloutPolicySpec{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}}})
	nodes := map[string]string{"n1": "", "n2": "", "g1": "gpu", "g2": "gpu", "g3": "gpu"}
	for name, pool := range nodes {
		p.nodeIn(pool, name)
	}
	p.assign()
	for name := range nodes {
		p.job(name)
	}

	first := p.admitted("n1", "n2")
	one, other := first.Spec.NodeName, map[string]string{"n1": "n2", "n2": "n1"}[first.Spec.NodeName]
	p.rolledBack(first, "someone:else")
	q := p.awaitScope(v1alpha1.QuarantinePolicies)
	assert.Equal(t, v1alpha1.QuarantineActive, q.Spec.State)
	assert.Equal(t, "2", q.Status.Version)
	require.Len(t, q.Status.Reports, 1)
	assert.Equal(t, []string{first.Name, one, "default", "the node did not boot it"},
		[]string{q.Status.Reports[0].Job, q.Status.Reports[0].Node, q.Status.Reports[0].Policy, q.Status.Reports[0].Message})
	p.awaitBlocked(other)
	second := p.admitted("g1", "g2", "g3")
	spared := slices.DeleteFunc([]string{"g1", "g2", "g3"}, func(n string) bool { return n == second.Spec.NodeName })
	require.NotNil(t, p.waiting(spared[0]), "another policy goes on")

	p.rolledBack(second, "")
	p.awaitScope(v1alpha1.QuarantineFleet)
	p.awaitBlocked(spared[0])
	p.awaitBlocked(spared[1])

	p.decide(v1alpha1.QuarantineLifted)
	q = p.awaitScope(v1alpha1.QuarantineNone)
	assert.Equal(t, []v1alpha1.ReportState{v1alpha1.ReportLifted, v1alpha1.ReportLifted}, []v1alpha1.ReportState{q.Status.Reports[0].State, q.Status.Reports[1].State})
	third := p.admitted(other)
	fourth := p.admitted(spared...)
	last := spared[0]
	if last == fourth.Spec.NodeName {
		last = spared[1]
	}
	p.eventually("the last node is queued again", func() bool { return p.waiting(last) != nil })
	assert.Nil(t, p.waiting(one), "the node that failed needs a retry of its own")

	p.rolledBack(third, "")
	q = p.awaitScope(v1alpha1.QuarantinePolicies)
	assert.Equal(t, v1alpha1.QuarantineLifted, q.Spec.State, "nobody but the person writes it")
	assert.NotNil(t, p.waiting(last), "one node is one policy again")
	p.decide(v1alpha1.QuarantineConfirmed)
	p.awaitScope(v1alpha1.QuarantineFleet)
	p.awaitBlocked(last)

	require.NoError(t, p.env.Client.Delete(t.Context(), q))
	uid := q.UID
	p.eventually("it is made again", func() bool { return p.get(q) && q.UID != uid && q.Status.Scope == v1alpha1.QuarantineFleet })
	assert.Equal(t, v1alpha1.QuarantineActive, q.Spec.State)
	assert.Len(t, q.Status.Reports, 3, "every job that there is reports it")

	p.decide(v1alpha1.QuarantineConfirmed)
	apitest.ApplyStatus(t, p.env.Client, v1alpha1.FieldOwnerDaemon, &v1alpha1.FirmwareJob{ // the source waits for it
		ObjectMeta: metav1.ObjectMeta{Name: fourth.Name}, Status: v1alpha1.FirmwareJobStatus{Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded, LastTransitionTime: metav1.Now()},
		}},
	})
	for _, o := range []client.Object{
		&v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: "bios"}}, &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: "bios"}},
	} {
		require.NoError(t, p.env.Client.Delete(t.Context(), o))
		p.eventually("it is gone", func() bool { return !p.get(o) })
	}
	p.assign()
	p.awaitBlocked(last)
	uid = q.UID
	assert.Equal(t, uid, p.awaitScope(v1alpha1.QuarantineFleet).UID)

	for _, j := range []*v1alpha1.FirmwareJob{first, second, third} {
		require.NoError(t, p.env.Client.Delete(t.Context(), j))
		p.eventually("the job is gone", func() bool { return !p.get(j) })
	}
	p.decide(v1alpha1.QuarantineActive)
	assert.Len(t, p.awaitScope(v1alpha1.QuarantineFleet).Status.Reports, 3, "it outlives the jobs")
	p.end()
}

// A person forbids an image before any node has it.
func TestAnImageForbiddenBeforehand(t *testing.T) {
	p := start(t, apitest.New(t), "daemon")
	p.eventually("the operator is ready", func() bool { return p.probe("/readyz") == http.StatusOK })
	require.NoError(t, p.env.Client.Create(t.Context(), &v1alpha1.FirmwareQuarantine{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.QuarantineName(biosImage(), "lenovo:7x21")},
		Spec:       v1alpha1.FirmwareQuarantineSpec{Digest: biosImage(), Model: "lenovo:7x21", State: v1alpha1.QuarantineConfirmed},
	}))
	p.awaitScope(v1alpha1.QuarantineFleet)
	p.node("n1")
	p.assign()
	d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "n1-bios"}}
	p.eventually("the device is assigned", func() bool { return p.get(d) && d.Spec.Firmware != nil && d.Spec.Firmware.Digest != "" })
	p.observe("n1", d.Generation)
	p.awaitBlocked("n1")
	assert.Empty(t, p.jobs("n1"))
	p.decide(v1alpha1.QuarantineActive)
	p.admitted("n1")
	p.end()
}

// end stops the operator.
func (p *process) end() {
	p.t.Helper()
	p.stop()
	require.NoError(p.t, <-p.done)
	p.done <- nil
}
