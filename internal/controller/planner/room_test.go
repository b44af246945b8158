package planner

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/room"
)

// R000-58: while the queue of its policy is full no job is made for a node; it is made once there is room.
func TestNoJobIsQueuedWhileTheQueueIsFull(t *testing.T) {
	w := newWorld(t, device("nic", 2), &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: v1alpha1.RolloutPolicySpec{MaxQueued: new(int32(3))}})
	queues := room.New(w.planner.now)
	var woken []string
	queues.OnWake(func(node string) { woken = append(woken, node) })
	w.planner.Within(queues)
	full := func(string) bool { return true }
	queues.Publish(map[string]room.Queue{"default": {Limit: 3, Queued: 3}}, full)
	w.settle()
	require.Nil(t, w.queued())
	assert.Equal(t, 1, queues.Refused("default"))

	queues.Publish(map[string]room.Queue{"default": {Limit: 3, Queued: 2}}, full)
	require.Equal(t, []string{node}, woken)
	w.reconcile()
	require.NotNil(t, w.queued())
	assert.Zero(t, queues.Refused("default"))
}
