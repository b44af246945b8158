package maintenance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/drain"
)

func node(cordoned bool, by string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u"}, Spec: corev1.NodeSpec{Unschedulable: cordoned}}
	if by != "" {
		n.Annotations = map[string]string{v1alpha1.CordonedAnnotation: by}
	}
	return n
}

// by is the node with a field manager that made it unschedulable, as the API server notes it.
func by(n *corev1.Node, manager string) *corev1.Node {
	n.ManagedFields = append(n.ManagedFields,
		metav1.ManagedFieldsEntry{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{}}}`)},
		metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:unschedulable":{}}}`)})
	return n
}

// letting is the node with the word of a person that it may be updated while it is cordoned.
func letting(n *corev1.Node) *corev1.Node {
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.UpdateWhileCordonedAnnotation, "true")
	return n
}

// drainedBy is the node with the taint of another product.
func drainedBy(n *corev1.Node, taint string) *corev1.Node {
	n.Spec.Taints = []corev1.Taint{{Key: taint, Effect: corev1.TaintEffectNoSchedule}}
	return n
}

func answer(id string, s v1alpha1.MaintenanceState) *v1alpha1.MaintenanceAnswer {
	return &v1alpha1.MaintenanceAnswer{RequestID: id, State: s, NodeUID: "u"}
}

// TestDecide proves R001-20, R001-21.
func TestDecide(t *testing.T) {
	wanted := &v1alpha1.MaintenanceRequest{ID: "1", Type: v1alpha1.MaintenanceDrain}
	over := &v1alpha1.MaintenanceRequest{ID: "1", Type: v1alpha1.MaintenanceRelease}
	for name, tc := range map[string]struct {
		facts
		cordon                  string
		uncordon, disown, evict bool
		// state is empty where nothing new is said.
		state v1alpha1.MaintenanceState
		again bool
	}{
		"a request that was lost returns no node":       {facts: facts{node: node(true, "1"), answer: answer("1", v1alpha1.MaintenanceDrained), admitted: true}},
		"a node without an admitted job is not touched": {facts: facts{request: wanted, node: node(false, "")}, state: v1alpha1.MaintenanceRefused, again: true},
		"a node that is not there is not touched":       {facts: facts{request: wanted, admitted: true}, state: v1alpha1.MaintenanceRefused, again: true},
		"it is cordoned first": {facts: facts{request: wanted, node: node(false, ""), admitted: true},
			cordon: "1", state: v1alpha1.MaintenanceDraining, again: true},
		"also after it was refused": {facts: facts{request: wanted, node: node(false, ""), admitted: true, answer: answer("1", v1alpha1.MaintenanceRefused)},
			cordon: "1", state: v1alpha1.MaintenanceDraining, again: true},
		"and anew for another request": {facts: facts{request: wanted, node: node(false, ""), admitted: true, answer: answer("0", v1alpha1.MaintenanceDrained)},
			cordon: "1", state: v1alpha1.MaintenanceDraining, again: true},
		"the cordon of an operator that died before it said so is its own": {facts: facts{request: wanted, node: node(true, "1"), admitted: true},
			cordon: "1", state: v1alpha1.MaintenanceDraining, again: true},
		"a node that a person cordoned is left alone": {facts: facts{request: wanted, node: node(true, ""), admitted: true},
			state: v1alpha1.MaintenanceRefused, again: true},
		"the cordon of a person who lets it be updated stays the person's": {facts: facts{request: wanted, node: letting(node(true, "")), admitted: true},
			state: v1alpha1.MaintenanceDraining, again: true},
		"a node that somebody else has is left alone": {facts: facts{request: wanted, node: drainedBy(node(false, ""), "medik8s.io/drain"), admitted: true},
			state: v1alpha1.MaintenanceRefused, again: true},
		"one that somebody else has since is drained on": {facts: facts{request: wanted, node: drainedBy(node(true, "1"), "medik8s.io/drain"),
			answer: answer("1", v1alpha1.MaintenanceDraining), admitted: true}, evict: true},
		"and kept for them at the end": {facts: facts{request: over, node: drainedBy(by(node(true, "1"), fieldOwner), "medik8s.io/drain")},
			state: v1alpha1.MaintenanceDrained, again: true},
		"as long as they have it": {facts: facts{request: over, node: drainedBy(node(true, "1"), "medik8s.io/drain"), answer: &v1alpha1.MaintenanceAnswer{
			RequestID: "1", State: v1alpha1.MaintenanceDrained, NodeUID: "u",
			Message: "medik8s (taint medik8s.io/drain) has the node too: after the job it stays cordoned until that ends, or until you run: kubectl uncordon n1",
		}}, again: true},
		"then it is returned": {facts: facts{request: over, node: by(node(true, "1"), fieldOwner), answer: answer("1", v1alpha1.MaintenanceDrained)},
			uncordon: true, state: v1alpha1.MaintenanceReleased},
		"also where they uncordoned it themselves": {facts: facts{request: over, node: drainedBy(node(false, "1"), "medik8s.io/drain")},
			uncordon: true, state: v1alpha1.MaintenanceReleased},
		"one that they cordoned stays theirs": {facts: facts{request: over, node: drainedBy(by(node(true, "1"), "medik8s"), "medik8s.io/drain")},
			disown: true, state: v1alpha1.MaintenanceReleased},
		"and so does one that they had before": {facts: facts{request: over, node: drainedBy(node(true, ""), "medik8s.io/drain")}, state: v1alpha1.MaintenanceReleased},
		"then it is drained":                   {facts: facts{request: wanted, node: node(true, "1"), answer: answer("1", v1alpha1.MaintenanceDraining), admitted: true}, evict: true},
		"not a pod is evicted that could come back": {facts: facts{request: wanted, node: node(false, "1"), answer: answer("1", v1alpha1.MaintenanceDraining), admitted: true},
			disown: true, state: v1alpha1.MaintenanceDraining, again: true},
		"nor any when the job has ended meanwhile": {facts: facts{request: wanted, node: node(true, "1"), answer: answer("1", v1alpha1.MaintenanceDraining)},
			state: v1alpha1.MaintenanceRefused, again: true},
		"nor for the request of a release that is over": {facts: facts{request: wanted, node: node(false, ""), answer: answer("1", v1alpha1.MaintenanceReleased)},
			state: v1alpha1.MaintenanceRefused, again: true},
		"a Node that was registered again is cordoned too": {facts: facts{request: wanted, node: node(false, ""), admitted: true,
			answer: &v1alpha1.MaintenanceAnswer{RequestID: "1", State: v1alpha1.MaintenanceDraining, NodeUID: "before"}},
			cordon: "1", state: v1alpha1.MaintenanceDraining, again: true},
		"until nothing is left": {facts: facts{request: wanted, node: node(true, "1"), answer: answer("1", v1alpha1.MaintenanceDraining), left: &drain.Left{}, admitted: true},
			state: v1alpha1.MaintenanceDrained},
		"while pods are left it waits": {facts: facts{request: wanted, node: node(true, "1"), answer: answer("1", v1alpha1.MaintenanceDraining),
			left: &drain.Left{Pods: []string{"a/b"}}, admitted: true}, state: v1alpha1.MaintenanceDraining, again: true},
		"also for a pod that it must not evict": {facts: facts{request: wanted, node: node(true, "1"), answer: answer("1", v1alpha1.MaintenanceDraining),
			left: &drain.Left{Refusal: "no"}, admitted: true}, state: v1alpha1.MaintenanceDraining, again: true},
		"a drained node is left alone":                    {facts: facts{request: wanted, node: node(true, "1"), answer: answer("1", v1alpha1.MaintenanceDrained)}},
		"and not cordoned again by force":                 {facts: facts{request: wanted, node: node(false, "1"), answer: answer("1", v1alpha1.MaintenanceDrained)}, disown: true},
		"a release uncordons what was cordoned":           {facts: facts{request: over, node: node(true, "1")}, uncordon: true, state: v1alpha1.MaintenanceReleased},
		"and what an earlier request has cordoned":        {facts: facts{request: over, node: node(true, "0")}, uncordon: true, state: v1alpha1.MaintenanceReleased},
		"but not what a person has cordoned":              {facts: facts{request: over, node: node(true, "")}, state: v1alpha1.MaintenanceReleased},
		"nor what a person has cordoned again since":      {facts: facts{request: over, node: by(node(true, "1"), "kubectl-cordon")}, disown: true, state: v1alpha1.MaintenanceReleased},
		"what the operator alone has cordoned is its own": {facts: facts{request: over, node: by(node(true, "1"), fieldOwner)}, uncordon: true, state: v1alpha1.MaintenanceReleased},
		"also where a manifest says the same":             {facts: facts{request: over, node: by(by(node(true, "1"), fieldOwner), "gitops")}, disown: true, state: v1alpha1.MaintenanceReleased},
		"the mark of an old cordon makes no other's the operator's": {facts: facts{request: wanted, node: by(node(true, "0"), "kubectl-cordon"), admitted: true},
			state: v1alpha1.MaintenanceRefused, again: true},
		"nor where they let it be updated": {facts: facts{request: wanted, node: letting(by(node(true, "0"), "kubectl-cordon")), admitted: true},
			state: v1alpha1.MaintenanceDraining, again: true},
		"a release is over where the Node is gone":   {facts: facts{request: over}, state: v1alpha1.MaintenanceReleased},
		"a person may cordon the node after the end": {facts: facts{request: over, node: node(true, ""), answer: answer("1", v1alpha1.MaintenanceReleased)}},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(tc.facts)
			assert.Equal(t, tc.cordon, d.cordon, "cordon")
			assert.Equal(t, tc.uncordon, d.uncordon, "uncordon")
			assert.Equal(t, tc.disown, d.disown, "disown")
			assert.Equal(t, tc.evict, d.evict, "evict")
			assert.Equal(t, tc.again, d.again, "again")
			if tc.state == "" {
				assert.Nil(t, d.answer)
				return
			}
			if assert.NotNil(t, d.answer) {
				assert.Equal(t, tc.state, d.answer.State)
				assert.Equal(t, "1", d.answer.RequestID)
			}
		})
	}
}

func TestAnswerSaysWhyPodsStay(t *testing.T) {
	d := decide(facts{
		request: &v1alpha1.MaintenanceRequest{ID: "1", Type: v1alpha1.MaintenanceDrain}, node: node(true, "1"), answer: answer("1", v1alpha1.MaintenanceDraining), admitted: true,
		left: &drain.Left{Pods: []string{"db/postgres-0"}, Refusal: "db/postgres-0: Cannot evict pod as it would violate the pod's disruption budget."},
	})
	assert.Equal(t, "pods are still on the node: db/postgres-0; not evicted: db/postgres-0: Cannot evict pod as it would violate the pod's disruption budget.",
		d.answer.Message)
	assert.Equal(t, "u", d.answer.NodeUID)
}

// A Node that was registered again while somebody has the Lease was not drained.
func TestNothingIsSaidOfAnotherNode(t *testing.T) {
	at, who := metav1.NewMicroTime(time.Unix(0, 0)), "NodeHealthCheck-gpu"
	f := facts{
		request: &v1alpha1.MaintenanceRequest{ID: "1", Type: v1alpha1.MaintenanceDrain}, node: node(true, "1"), answer: answer("1", v1alpha1.MaintenanceDrained), admitted: true,
		lease: &lease{now: at.Time, object: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &who, RenewTime: &at, LeaseDurationSeconds: ptr.To(int32(60))}}},
	}
	f.answer.NodeUID = string(f.node.UID)
	assert.NotNil(t, decide(f).answer)
	f.answer.NodeUID = "before"
	assert.Nil(t, decide(f).answer)
}

// A job says for ever that it was admitted.
func TestAJobThatHasEndedHasNoPlace(t *testing.T) {
	is := func(types ...string) *v1alpha1.FirmwareJob {
		j := &v1alpha1.FirmwareJob{}
		for _, c := range types {
			j.Status.Conditions = append(j.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue})
		}
		return j
	}
	assert.False(t, is().HasPlace())
	assert.True(t, is(v1alpha1.ConditionAdmitted).HasPlace())
	assert.False(t, is(v1alpha1.ConditionAdmitted, v1alpha1.ConditionComplete).HasPlace())
	assert.False(t, is(v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed).HasPlace())
	assert.True(t, is(v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld).HasPlace())
}
