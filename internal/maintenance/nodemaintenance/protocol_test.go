package nodemaintenance_test

import (
	"testing"

	mo "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance/nodemaintenance"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// get reads a NodeMaintenance.
func (c cluster) get(name string) mo.NodeMaintenance {
	c.t.Helper()
	var o mo.NodeMaintenance
	require.NoError(c.t, c.Get(c.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &o))
	return o
}

// setReady writes what the maintenance-operator would.
func (c cluster) setReady(o mo.NodeMaintenance, reason string) {
	c.t.Helper()
	ready := metav1.Condition{Type: mo.ConditionTypeReady, Status: metav1.ConditionFalse, Reason: reason}
	if reason == mo.ConditionReasonReady {
		ready.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&o.Status.Conditions, ready)
	require.NoError(c.t, c.Status().Update(c.t.Context(), &o))
}

func (c cluster) message(w *nodemaintenance.Node) string {
	c.t.Helper()
	s, err := w.State(c.t.Context())
	require.NoError(c.t, err)
	return s.Message
}

// A node is flashed and rebooted in a maintenance that is joined, so that one must have taken away what ours takes away.
// TestOnlyAMaintenanceThatDrainsAsOursIsJoined proves R001-21.
func TestOnlyAMaintenanceThatDrainsAsOursIsJoined(t *testing.T) {
	for name, spoil := range map[string]func(*mo.NodeMaintenance){
		"it does not drain":            func(o *mo.NodeMaintenance) { o.Spec.DrainSpec = nil },
		"it does not cordon":           func(o *mo.NodeMaintenance) { o.Spec.Cordon = false },
		"it drains some pods by label": func(o *mo.NodeMaintenance) { o.Spec.DrainSpec.PodSelector = "gpu=yes" },
		"it drains some by filter": func(o *mo.NodeMaintenance) {
			o.Spec.DrainSpec.PodEvictionFilters = []mo.PodEvictionFiterEntry{{ByResourceNameRegex: ptr.To("nvidia.com/gpu")}}
		},
		"it stops at pods without a controller": func(o *mo.NodeMaintenance) { o.Spec.DrainSpec.Force = false },
		"it stops at pods with an emptyDir":     func(o *mo.NodeMaintenance) { o.Spec.DrainSpec.DeleteEmptyDir = false },
		"its requestor failed": func(o *mo.NodeMaintenance) {
			o.Status.Conditions = []metav1.Condition{{Type: mo.ConditionTypeRequestorFailed, Status: metav1.ConditionTrue}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			other := foreign()
			spoil(other)
			c := newCluster(t, interceptor.Funcs{}, other)
			w := c.window()
			c.work()
			require.NoError(t, w.Schedule(t.Context()))
			assert.Empty(t, c.get("other-n1").Spec.AdditionalRequestors)
			assert.Equal(t, v1alpha1.MaintenanceRequestorID, c.get("node-firmware-n1").Spec.RequestorID, "the product requests its own and queues")
		})
	}
}

// Where several could be joined, one under which the node is out of service already comes before one that waits for a slot.
func TestOfSeveralMaintenancesTheOneFurthestOnIsJoined(t *testing.T) {
	first, second := foreign(), foreign()
	second.Name = "zz-n1"
	c := newCluster(t, interceptor.Funcs{}, first, second)
	c.setReady(c.get("other-n1"), mo.ConditionReasonPending)
	c.setReady(c.get("zz-n1"), mo.ConditionReasonReady)
	require.NoError(t, c.window().Schedule(t.Context()))
	assert.Equal(t, []string{v1alpha1.MaintenanceRequestorID}, c.get("zz-n1").Spec.AdditionalRequestors)
	assert.Empty(t, c.get("other-n1").Spec.AdditionalRequestors)
}

// The owner of a shared maintenance fails and deletes it. Its reason stays RequestorFailed for good: our entry keeps the object and
// the node out of service, and so the job and its retry go on.
func TestASharedMaintenanceWhoseOwnerFailedAndDeletedItIsNoDeadlock(t *testing.T) {
	c := newCluster(t, interceptor.Funcs{}, foreign())
	w, ctx := c.window(), t.Context()
	c.work()
	require.NoError(t, w.Schedule(ctx))
	c.requirePhase(w, step.MaintenanceReady)
	o := c.get("other-n1")
	meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{Type: mo.ConditionTypeRequestorFailed, Status: metav1.ConditionTrue, Reason: "x"})
	require.NoError(t, c.Status().Update(ctx, &o))
	c.work()
	c.requirePhase(w, step.MaintenanceReady)
	require.NoError(t, c.Delete(ctx, foreign()))
	c.work()
	c.requirePhase(w, step.MaintenanceReady)
	require.NoError(t, w.Schedule(ctx), "a retry")
	c.requirePhase(w, step.MaintenanceReady)
	require.NoError(t, w.Release(ctx))
	c.work()
	assert.Empty(t, c.all())
	c.requirePhase(w, step.MaintenanceNone)
}

// The maintenance-operator returns a node to service as soon as its maintenance is deleted, unless somebody else is named in it.
func TestOurMaintenanceDeletedBySomebodyKeepsTheNodeOutOfService(t *testing.T) {
	c := newCluster(t, interceptor.Funcs{})
	w, ctx := c.window(), t.Context()
	require.NoError(t, w.Schedule(ctx))
	c.work()
	o := c.get("node-firmware-n1")
	require.NoError(t, c.Delete(ctx, &o))
	c.work()
	c.requirePhase(w, step.MaintenanceReady)
	assert.Contains(t, c.message(w), "was deleted by someone else")

	require.NoError(t, w.Fail(ctx, "the write failed"))
	c.work()
	c.requirePhase(w, step.MaintenanceRequested)
	require.NoError(t, w.Schedule(ctx), "a retry")
	c.work()
	c.requirePhase(w, step.MaintenanceReady)

	require.NoError(t, w.Release(ctx))
	c.work()
	assert.Empty(t, c.all())
	c.requirePhase(w, step.MaintenanceNone)
}

// Before the node is out of service nothing can be lost: the maintenance ends, and another one is requested.
func TestOurMaintenanceDeletedWhileItIsPendingIsRequestedAnew(t *testing.T) {
	c := newCluster(t, interceptor.Funcs{})
	w, ctx := c.window(), t.Context()
	require.NoError(t, w.Schedule(ctx))
	o := c.get("node-firmware-n1")
	o.Finalizers = []string{mo.MaintenanceFinalizerName}
	require.NoError(t, c.Update(ctx, &o))
	c.setReady(o, mo.ConditionReasonPending)
	o = c.get("node-firmware-n1")
	require.NoError(t, c.Delete(ctx, &o))
	c.requirePhase(w, step.MaintenanceEnding)
	require.NoError(t, w.Schedule(ctx), "not joined again")
	c.work()
	c.requirePhase(w, step.MaintenanceNone)
	require.NoError(t, w.Schedule(ctx))
	c.work()
	c.requirePhase(w, step.MaintenanceReady)
}

// One that an earlier version of the product requested does not name it yet.
func TestAMaintenanceOfAnEarlierVersionIsKeptFromDeletionToo(t *testing.T) {
	old := foreign()
	old.Name, old.Spec.RequestorID = "node-firmware-n1", v1alpha1.MaintenanceRequestorID
	c := newCluster(t, interceptor.Funcs{}, old)
	require.NoError(t, c.window().Schedule(t.Context()))
	assert.Equal(t, []string{v1alpha1.MaintenanceRequestorID}, c.get("node-firmware-n1").Spec.AdditionalRequestors)
}

// A failed job holds its node. When its maintenance vanished, as when somebody removed the finalizers or the Node was registered
// again, the node takes workloads: it is taken out of service again.
func TestAHeldNodeWhoseMaintenanceVanishedIsTakenOutOfServiceAgain(t *testing.T) {
	c := newCluster(t, interceptor.Funcs{})
	w, ctx := c.window(), t.Context()
	require.NoError(t, w.Schedule(ctx))
	c.work()
	o := c.get("node-firmware-n1")
	o.Finalizers = nil
	require.NoError(t, c.Update(ctx, &o))
	require.NoError(t, c.Delete(ctx, &o))
	c.cordon(false)
	c.requirePhase(w, step.MaintenanceNone)
	assert.Empty(t, c.message(w), "it is in service")

	require.NoError(t, w.Fail(ctx, "the maintenance was ended"))
	c.work()
	var n corev1.Node
	require.NoError(t, c.Get(ctx, client.ObjectKey{Name: node}, &n))
	assert.True(t, n.Spec.Unschedulable)
	require.NoError(t, w.Fail(ctx, "the maintenance was ended"))
	c.work()
	assert.True(t, meta.IsStatusConditionTrue(c.get("node-firmware-n1").Status.Conditions, mo.ConditionTypeRequestorFailed))
}

// The message of the condition Ready is always empty; what is waited for is elsewhere.
func TestAWaitForMaintenanceNamesWhatIsWaitedFor(t *testing.T) {
	c := newCluster(t, interceptor.Funcs{})
	w := c.window()
	require.NoError(t, w.Schedule(t.Context()))
	c.requirePhase(w, step.MaintenanceRequested)
	assert.Contains(t, c.message(w), "check that it is running")

	c.setReady(c.get("node-firmware-n1"), mo.ConditionReasonPending)
	c.requirePhase(w, step.MaintenanceRequested)
	assert.Contains(t, c.message(w), "no slot of the maintenance-operator is free")
	assert.Contains(t, c.message(w), "maxParallelOperations")

	first := foreign()
	first.Spec.DrainSpec = nil // it cannot be shared
	require.NoError(t, c.Create(t.Context(), first))
	assert.Contains(t, c.message(w), "no slot", "one that waits behind ours")
	c.setReady(c.get("other-n1"), mo.ConditionReasonDraining)
	assert.Contains(t, c.message(w), "is queued behind node maintenance other-n1 of other.example, which is in the state Draining; "+
		"the maintenance-operator does one of a node at a time")
	other := c.get("other-n1")
	other.Finalizers = nil
	require.NoError(t, c.Update(t.Context(), &other))
	require.NoError(t, c.Delete(t.Context(), &other))

	o := c.get("node-firmware-n1")
	o.Status.WaitForCompletion = []string{"batch/train-0"}
	c.setReady(o, mo.ConditionReasonWaitForPodCompletion)
	assert.Contains(t, c.message(w), "batch/train-0")

	o = c.get("node-firmware-n1")
	o.Status.Drain = &mo.DrainStatus{WaitForEviction: []string{"a/1", "a/2", "a/3", "a/4", "a/5", "a/6", "db/postgres-0"}}
	c.setReady(o, mo.ConditionReasonDraining)
	c.requirePhase(w, step.MaintenanceRequested)
	assert.Contains(t, c.message(w), "7 pods are still to be evicted: a/1, a/2, a/3, a/4, a/5 and 2 more")
	assert.Contains(t, c.message(w), "PodDisruptionBudget")
}

func TestReportsTakenName(t *testing.T) {
	for name, spoil := range map[string]func(*mo.NodeMaintenance){
		"of another requestor": func(o *mo.NodeMaintenance) { o.Spec.Cordon = false },
		"of another node": func(o *mo.NodeMaintenance) {
			o.Spec.NodeName, o.Spec.RequestorID = "n2", v1alpha1.MaintenanceRequestorID
		},
	} {
		t.Run(name, func(t *testing.T) {
			other := foreign()
			other.Name = "node-firmware-n1"
			spoil(other)
			c := newCluster(t, interceptor.Funcs{}, other)
			err := c.window().Schedule(t.Context())
			require.ErrorContains(t, err, "node maintenance node-firmware-n1 exists already and belongs to requestor "+other.Spec.RequestorID+" for node "+other.Spec.NodeName)
			assert.ErrorContains(t, err, "delete it")
		})
	}
}

// Who released the node reads whether it takes workloads again.
func TestAReleaseSaysWhetherTheNodeIsBackInService(t *testing.T) {
	c := newCluster(t, interceptor.Funcs{}, foreign())
	w, ctx := c.window(), t.Context()
	c.work()
	require.NoError(t, w.Schedule(ctx))
	require.NoError(t, w.Release(ctx))
	c.requirePhase(w, step.MaintenanceNone)
	assert.Equal(t, "the product has no maintenance of node n1, which stays cordoned by node maintenance other-n1 of other.example", c.message(w))
	require.NoError(t, c.Delete(ctx, foreign()))
	c.work()
	assert.Empty(t, c.message(w), "it is in service")
	c.cordon(true)
	assert.Equal(t, "the product has no maintenance of node n1, which stays cordoned by somebody else; to return it to service, run: kubectl uncordon n1  "+
		"To have it updated as it is: kubectl annotate node n1 nodefirmware.io/update-while-cordoned=true", c.message(w))
}

// The maintenance-operator says at the end of its drain what is left on the node; the product may not read pods itself.
func TestAMaintenanceWhoseDrainLeftPodsIsNotReady(t *testing.T) {
	c := newCluster(t, interceptor.Funcs{})
	w := c.window()
	require.NoError(t, w.Schedule(t.Context()))
	c.work()
	c.requirePhase(w, step.MaintenanceReady)
	o := c.get("node-firmware-n1")
	o.Status.Drain = &mo.DrainStatus{WaitForEviction: []string{"db/postgres-0"}}
	require.NoError(t, c.Status().Update(t.Context(), &o))
	c.requirePhase(w, step.MaintenanceRequested)
	assert.Contains(t, c.message(w), "left pods on the node: db/postgres-0")
}
