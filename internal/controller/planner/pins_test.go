package planner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/queue"
)

// pin lets a pin of the node select what a device is to run.
func (w *world) pin(name string, version int) {
	w.Helper()
	w.edit(name, func(d *v1alpha1.NodeDevice) {
		setDesired(d, version)
		d.Spec.Origin[0] = v1alpha1.Origin{Kind: v1alpha1.OriginPin, Name: node, Rule: "stay"}
	})
}

func wavesOf(maxQueued *int32) *v1alpha1.RolloutPolicy {
	return &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: v1alpha1.RolloutPolicySpec{
		MaxQueued: maxQueued, Waves: []v1alpha1.RolloutWave{{Name: "one", Size: new(intstr.FromInt32(1))}},
	}}
}

// Where the policy has waves, what a pin selects goes first and alone: it waits for no wave. The rest follows.
func TestPinsGoInAJobOfTheirOwn(t *testing.T) {
	w := newWorld(t, device("nic", 2), device("disk", 2), wavesOf(nil))
	w.settle()
	require.Equal(t, "disk=2 nic=2", devices(w.queued()))
	w.pin("nic", 3)
	w.settle()
	j := w.queued()
	require.Equal(t, "nic=3", devices(j))
	assert.Equal(t, v1alpha1.OriginPin, j.Spec.Task.Devices[0].Origin)
	w.requireQuiet()
	w.set(j, nil, v1alpha1.ConditionAdmitted, v1alpha1.ConditionComplete)
	w.edit("nic", func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Running, d.Status.Firmware.Stored = "3", "3" })
	w.settle()
	require.Equal(t, "disk=2", devices(w.queued()))
	assert.Empty(t, w.queued().Spec.Task.Devices[0].Origin)
	w.requireQuiet()
}

// Without waves one maintenance is enough for both.
func TestPinsAndTemplatesShareAJobWithoutWaves(t *testing.T) {
	w := newWorld(t, device("nic", 2), device("disk", 2))
	w.pin("nic", 3)
	w.settle()
	require.Equal(t, "disk=2 nic=3", devices(w.queued()))
	w.requireQuiet()
}

// Who pins what a template has queued already need not wait for the wave any more.
func TestAPinReplacesTheQueuedJob(t *testing.T) {
	w := newWorld(t, device("nic", 2), wavesOf(nil))
	w.settle()
	before := w.queued()
	w.pin("nic", 2)
	w.settle()
	w.reconcile()
	j := w.queued()
	require.NotNil(t, j)
	assert.NotEqual(t, before.UID, j.UID)
	assert.Equal(t, v1alpha1.OriginPin, j.Spec.Task.Devices[0].Origin)
	w.requireQuiet()
}

// What was held is judged again with all that the failed job had, whoever selects it now.
func TestAPinOnAHeldNodeTakesTheRestAlong(t *testing.T) {
	w := newWorld(t, device("nic", 2), device("disk", 2), wavesOf(nil))
	w.settle()
	w.set(w.queued(), []v1alpha1.JobStep{{Name: "flash", Device: node + "-nic", State: v1alpha1.StepFailed}},
		v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	w.pin("nic", 3)
	w.settle()
	require.Equal(t, "disk=2 nic=3", devices(w.queued()))
	w.requireQuiet()
}

// The retry of a held node passes waves and halts because it repeats what failed: what its templates ask for comes afterwards.
func TestARetryOfAPinTakesNoTemplateAlong(t *testing.T) {
	w := newWorld(t, device("nic", 2), device("disk", 2), wavesOf(nil))
	w.pin("nic", 3)
	w.settle()
	require.Equal(t, "nic=3", devices(w.queued()))
	w.set(w.queued(), []v1alpha1.JobStep{{Name: "flash", Device: node + "-nic", State: v1alpha1.StepFailed}},
		v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	w.settle()
	w.retry()
	w.settle()
	require.Equal(t, "nic=3", devices(w.queued()))
	w.requireQuiet()
}

// R000-58: jobs that wait for their wave fill the queue, and must not keep a pin out, which waits for none.
func TestAFullQueueRefusesNoPin(t *testing.T) {
	w := newWorld(t, device("nic", 2), wavesOf(new(int32(3))))
	queues := queue.New(w.planner.now)
	w.planner.Within(queues)
	queues.Publish(map[string]queue.Counts{"default": {Limit: 3, Queued: 3}}, func(string) bool { return true })
	w.settle()
	require.Nil(t, w.queued())
	w.pin("nic", 3)
	w.reconcile()
	assert.Equal(t, []bool{true}, []bool{queues.Due()[node][0].Pinned})
	w.settle()
	require.NotNil(t, w.queued())
	assert.Zero(t, queues.Refused("default"))
}

// A pin whose image is halted waits for a person, and keeps nothing else of its node from its wave.
func TestAHaltedPinKeepsNothingWaiting(t *testing.T) {
	halted := wavesOf(nil)
	halted.Status.Rollouts = []v1alpha1.RolloutStatus{{Model: v1alpha1.AnyModel, Version: "3", Digest: digest(3), HaltedTime: &metav1.Time{Time: time.Unix(0, 0)}}}
	w := newWorld(t, device("nic", 2), device("disk", 2), halted)
	w.pin("nic", 3)
	w.settle()
	require.Equal(t, "disk=2", devices(w.queued()))
	w.requireQuiet()

	resumed := halted.DeepCopy()
	resumed.Status.Rollouts[0].HaltedTime = nil
	assert.True(t, policyChanged.Update(event.UpdateEvent{ObjectOld: halted, ObjectNew: resumed}), "the pin goes now")
}

// Where nothing else is due, its job is queued and says what it waits for.
func TestAHaltedPinAloneIsQueued(t *testing.T) {
	halted := wavesOf(nil)
	halted.Status.Rollouts = []v1alpha1.RolloutStatus{{Model: v1alpha1.AnyModel, Version: "3", Digest: digest(3), HaltedTime: &metav1.Time{Time: time.Unix(0, 0)}}}
	w := newWorld(t, device("nic", 2), halted)
	w.pin("nic", 3)
	w.settle()
	require.Equal(t, "nic=3", devices(w.queued()))
}
