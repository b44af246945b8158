package planner

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/queue"
)

// R000-58: while the queue of its policy is full no job is made for a node; it is made once there is room.
func TestFullQueueTakesNoJob(t *testing.T) {
	w := newWorld(t, device("nic", 2), &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: v1alpha1.RolloutPolicySpec{MaxQueued: new(int32(3))}})
	queues := queue.New(w.planner.now)
	var woken []string
	queues.OnWake(func(node string) { woken = append(woken, node) })
	w.planner.Within(queues)
	full := func(string) bool { return true }
	queues.Publish(map[string]queue.Counts{"default": {Limit: 3, Queued: 3}}, full)
	w.settle()
	require.Nil(t, w.queued())
	assert.Equal(t, 1, queues.Refused("default"))

	queues.Publish(map[string]queue.Counts{"default": {Limit: 3, Queued: 2}}, full)
	require.Equal(t, []string{node}, woken)
	w.reconcile()
	require.NotNil(t, w.queued())
	assert.Zero(t, queues.Refused("default"))
}

// R000-58: no update leaves its first wave before a node has succeeded, so a full queue that refused the nodes of that wave would
// hold the rollout for ever.
func TestAFullQueueRefusesNoNodeThatAWaveSelects(t *testing.T) {
	policy := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: v1alpha1.RolloutPolicySpec{
		MaxQueued: new(int32(3)),
		Waves: []v1alpha1.RolloutWave{
			{Name: "some", Size: new(intstr.FromInt32(1))},
			{Name: "canaries", NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}},
		},
	}}
	w := newWorld(t, device("nic", 2), policy)
	queues := queue.New(w.planner.now)
	w.planner.Within(queues)
	queues.Publish(map[string]queue.Counts{"default": {Limit: 3, Queued: 3}}, func(string) bool { return true })
	w.settle()
	require.Nil(t, w.queued(), "a wave without a selector has no nodes of its own")
	require.Equal(t, 1, queues.Refused("default"))

	var n corev1.Node
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Name: node}, &n))
	n.Labels = map[string]string{"canary": "yes"}
	require.NoError(t, w.Update(t.Context(), &n))
	w.reconcile()
	assert.NotNil(t, w.queued())
	assert.Zero(t, queues.Refused("default"))

	edited := policy.DeepCopy()
	edited.Spec.Waves[1].NodeSelector.MatchLabels["canary"] = "no"
	assert.True(t, policyChanged.Update(event.UpdateEvent{ObjectOld: policy, ObjectNew: edited}), "others are refused now")
}

// A policy whose spec is invalid queues nothing more, neither for its canaries nor for pins, and the default policy queues nothing for the
// nodes that it may be meant for.
func TestAnInvalidPolicyQueuesNothing(t *testing.T) {
	labelled := map[string]string{"pool": "gpu", "canary": "yes"}
	canaries := []v1alpha1.RolloutWave{{Name: "canaries", NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}}}
	pinned := device("nic", 2)
	pinned.Spec.Origin = []v1alpha1.Origin{{Kind: v1alpha1.OriginPin, Name: node}}
	for name, c := range map[string]struct {
		device *v1alpha1.NodeDevice
		spec   v1alpha1.RolloutPolicySpec
	}{
		"a node of a wave": {device("nic", 2), v1alpha1.RolloutPolicySpec{Waves: canaries, NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}}}},
		"a pin":            {pinned, v1alpha1.RolloutPolicySpec{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}}}},
		"a node that it may be meant for": {device("nic", 2), v1alpha1.RolloutPolicySpec{NodeSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"pool": "gpu", "rack": "not a value!"},
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.spec.MaxQueued = new(int32(3))
			w := newWorld(t, c.device, &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
				&v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: c.spec})
			var n corev1.Node
			require.NoError(t, w.Get(t.Context(), client.ObjectKey{Name: node}, &n))
			n.Labels = labelled
			require.NoError(t, w.Update(t.Context(), &n))
			queues := queue.New(w.planner.now)
			w.planner.Within(queues)
			all := func(string) bool { return true }
			queues.Publish(map[string]queue.Counts{"gpu": {}}, all)
			w.settle()
			require.Nil(t, w.queued())
			assert.Equal(t, 1, queues.Refused("gpu"))

			queues.Publish(map[string]queue.Counts{"gpu": {Limit: 3, Queued: 2}}, all)
			w.reconcile()
			assert.NotNil(t, w.queued(), "it goes on once the spec is valid")
		})
	}
}
