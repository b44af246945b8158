package nodemaintenance_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	mo "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance/nodemaintenance"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

const namespace, node = "node-firmware-system", "n1"

// cluster plays the maintenance-operator as far as a requestor sees it.
type cluster struct {
	t *testing.T
	client.Client
}

func newCluster(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) cluster {
	scheme := runtime.NewScheme()
	require.NoError(t, mo.AddToScheme(scheme))
	require.NoError(t, corev1.AddToScheme(scheme))
	objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "first"}})
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&mo.NodeMaintenance{}).
		WithIndex(&mo.NodeMaintenance{}, "spec.nodeName", func(o client.Object) []string {
			return []string{o.(*mo.NodeMaintenance).Spec.NodeName}
		}).WithInterceptorFuncs(funcs).Build()
	return cluster{t, c}
}

func (c cluster) window() *nodemaintenance.Node {
	return &nodemaintenance.Node{Client: c, Namespace: namespace, NodeName: node}
}

func (c cluster) all() []mo.NodeMaintenance {
	var list mo.NodeMaintenanceList
	require.NoError(c.t, c.List(c.t.Context(), &list))
	return list.Items
}

// cordon takes the Node out of service, or returns it.
func (c cluster) cordon(is bool) {
	o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if err := c.Get(c.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		require.True(c.t, apierrors.IsNotFound(err), err)
		return
	}
	o.Spec.Unschedulable = is
	require.NoError(c.t, c.Update(c.t.Context(), o))
}

// work does what the operator would: finalizer, cordon, Ready or RequestorFailed, and the end of what is deleted and free. A Node
// that is ready is not cordoned again.
func (c cluster) work() {
	for _, o := range c.all() {
		ready := meta.FindStatusCondition(o.Status.Conditions, mo.ConditionTypeReady)
		terminal := ready != nil && (ready.Reason == mo.ConditionReasonReady || ready.Reason == mo.ConditionReasonRequestorFailed)
		if o.DeletionTimestamp != nil {
			if len(o.Spec.AdditionalRequestors) == 0 || !terminal {
				o.Finalizers = nil
				require.NoError(c.t, c.Update(c.t.Context(), &o))
				c.cordon(false)
			}
			continue
		}
		if ready != nil && ready.Reason == mo.ConditionReasonDraining {
			continue
		}
		if len(o.Finalizers) == 0 {
			if slices.ContainsFunc(c.all(), func(other mo.NodeMaintenance) bool { return len(other.Finalizers) > 0 }) {
				continue // one maintenance per node at a time
			}
			o.Finalizers = []string{mo.MaintenanceFinalizerName}
			require.NoError(c.t, c.Update(c.t.Context(), &o))
		}
		if o.Spec.Cordon && !meta.IsStatusConditionTrue(o.Status.Conditions, mo.ConditionTypeReady) {
			c.cordon(true)
		}
		next := metav1.Condition{Type: mo.ConditionTypeReady, Status: metav1.ConditionTrue, Reason: mo.ConditionReasonReady}
		if meta.IsStatusConditionTrue(o.Status.Conditions, mo.ConditionTypeRequestorFailed) {
			next.Status, next.Reason = metav1.ConditionFalse, mo.ConditionReasonRequestorFailed
		}
		meta.SetStatusCondition(&o.Status.Conditions, next)
		require.NoError(c.t, c.Status().Update(c.t.Context(), &o))
	}
}

func (c cluster) requirePhase(w *nodemaintenance.Node, want step.Maintenance) {
	c.t.Helper()
	s, err := w.State(c.t.Context())
	require.NoError(c.t, err)
	require.Equal(c.t, want, s.Phase, s.Message)
}

func foreign() *mo.NodeMaintenance {
	return &mo.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "other-n1", Namespace: namespace, Finalizers: []string{mo.MaintenanceFinalizerName}},
		Spec:       mo.NodeMaintenanceSpec{RequestorID: "other.example", NodeName: node, Cordon: true, DrainSpec: nodemaintenance.DrainAll()},
	}
}

// TestContractOfAWindow proves R001-21.
func TestContractOfAWindow(t *testing.T) {
	c := newCluster(t, interceptor.Funcs{})
	w, ctx := c.window(), t.Context()
	c.requirePhase(w, step.MaintenanceNone)
	require.NoError(t, w.Release(ctx), "nothing to release")

	require.NoError(t, w.Schedule(ctx))
	require.NoError(t, w.Schedule(ctx), "again, as after a restart")
	require.Len(t, c.all(), 1)
	o := c.all()[0]
	assert.Equal(t, "node-firmware-n1", o.Name)
	assert.Equal(t, v1alpha1.MaintenanceRequestorID, o.Spec.RequestorID)
	assert.Equal(t, "true", o.Annotations[nodemaintenance.IgnoreGCAnnotation])
	c.requirePhase(w, step.MaintenanceRequested)
	c.work()
	c.requirePhase(w, step.MaintenanceReady)

	require.NoError(t, w.Fail(ctx, "the write failed"))
	c.requirePhase(w, step.MaintenanceRequested)
	c.work()
	c.requirePhase(w, step.MaintenanceRequested)
	failed := meta.FindStatusCondition(c.all()[0].Status.Conditions, mo.ConditionTypeRequestorFailed)
	require.NotNil(t, failed)
	assert.Equal(t, mo.ConditionReasonFailedMaintenance, failed.Reason)

	require.NoError(t, w.Schedule(ctx), "a newer job takes it up")
	c.work()
	c.requirePhase(w, step.MaintenanceReady)

	require.NoError(t, w.Release(ctx))
	c.requirePhase(w, step.MaintenanceEnding)
	require.NoError(t, w.Schedule(ctx), "one that ends cannot be had again")
	c.requirePhase(w, step.MaintenanceEnding)
	c.work()
	c.requirePhase(w, step.MaintenanceNone)
	assert.Empty(t, c.all())
}

// Somebody uncordons the node, deletes its Node, or both: workloads may run there though the maintenance is ready. A newer job
// has the node cordoned and drained again.
func TestAMaintenanceIsReadyOnlyWhileItsNodeIsCordoned(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, cluster){
		"uncordoned": func(_ *testing.T, c cluster) { c.cordon(false) },
		"registered again": func(t *testing.T, c cluster) {
			require.NoError(t, c.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
			c.requirePhase(c.window(), step.MaintenanceBroken)
			require.NoError(t, c.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "second"}}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, interceptor.Funcs{})
			w, ctx := c.window(), t.Context()
			require.NoError(t, w.Schedule(ctx))
			c.work()
			first, err := w.State(ctx)
			require.NoError(t, err)
			assert.Equal(t, maintenance.State{Phase: step.MaintenanceReady, Message: "node maintenance node-firmware-n1 is ready", Node: "first"}, first)

			spoil(t, c)
			c.work()
			c.requirePhase(w, step.MaintenanceBroken)
			require.NoError(t, w.Fail(ctx, "taken back"))
			c.work()
			require.NoError(t, w.Schedule(ctx), "a newer job clears the failure")
			c.work()
			for range 3 {
				require.NoError(t, w.Schedule(ctx), "and asks until the node is out of service")
				c.work()
			}
			second, err := w.State(ctx)
			require.NoError(t, err)
			assert.Equal(t, step.MaintenanceReady, second.Phase, second.Message)
			assert.Equal(t, name == "uncordoned", first.Node == second.Node)
		})
	}
}

func TestMaintenanceOfAnotherRequestorIsShared(t *testing.T) {
	c := newCluster(t, interceptor.Funcs{}, foreign())
	w, ctx := c.window(), t.Context()
	c.work()
	c.requirePhase(w, step.MaintenanceNone)
	require.NoError(t, w.Schedule(ctx))
	require.Len(t, c.all(), 1)
	assert.Equal(t, []string{v1alpha1.MaintenanceRequestorID}, c.all()[0].Spec.AdditionalRequestors)
	c.requirePhase(w, step.MaintenanceReady)

	require.NoError(t, w.Fail(ctx, "the write failed"))
	assert.False(t, meta.IsStatusConditionTrue(c.all()[0].Status.Conditions, mo.ConditionTypeRequestorFailed),
		"the other's work is not declared failed")

	require.NoError(t, c.Delete(ctx, foreign()), "the owner is done")
	c.work()
	c.requirePhase(w, step.MaintenanceReady)
	require.NoError(t, w.Release(ctx))
	c.requirePhase(w, step.MaintenanceNone)
	c.work()
	assert.Empty(t, c.all())
}

// The maintenance-operator begins with ours when the other is gone.
func TestOursIsQueuedBehindAnEndingMaintenanceOfAnother(t *testing.T) {
	c := newCluster(t, interceptor.Funcs{}, foreign())
	w, ctx := c.window(), t.Context()
	c.work()
	require.NoError(t, c.Delete(ctx, foreign()))
	require.NoError(t, w.Schedule(ctx))
	assert.Empty(t, c.get("other-n1").Spec.AdditionalRequestors)
	c.requirePhase(w, step.MaintenanceRequested)
	c.work()
	c.work()
	c.requirePhase(w, step.MaintenanceReady)
}

// An operator of NVIDIA says on the Node how far the upgrade is for which it has a maintenance. One that cannot be joined goes first. Who has the
// node without a maintenance is not overtaken.
func TestOursIsQueuedBehindTheMaintenanceOfAnUpgrade(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		maintained  bool
		requested   bool
	}{
		"in a maintenance": {nil, true, true},
		"in none":          {nil, false, false},
		"and kured has it": {map[string]string{"weave.works/kured-reboot-in-progress": "now"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, interceptor.Funcs{})
			if tc.maintained {
				other := foreign()
				other.Spec.DrainSpec = nil
				require.NoError(t, c.Create(t.Context(), other))
			}
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(n), n))
			n.Labels, n.Annotations, n.Spec.Unschedulable = map[string]string{"nvidia.com/gpu-driver-upgrade-state": "validation-required"}, tc.annotations, true
			require.NoError(t, c.Update(t.Context(), n))
			require.NoError(t, c.window().Schedule(t.Context()))
			assert.Equal(t, tc.requested, slices.ContainsFunc(c.all(), func(o mo.NodeMaintenance) bool { return o.Name == nodemaintenance.Name(node) }))
		})
	}
}

func TestJoiningOverwritesNobody(t *testing.T) {
	raced := false
	c := newCluster(t, interceptor.Funcs{
		Patch: func(ctx context.Context, cl client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if !raced {
				raced = true
				var third mo.NodeMaintenance
				require.NoError(t, cl.Get(ctx, client.ObjectKeyFromObject(o), &third))
				third.Spec.AdditionalRequestors = []string{"third.example"}
				require.NoError(t, cl.Update(ctx, &third))
			}
			return cl.Patch(ctx, o, p, opts...)
		},
	}, foreign())
	w, ctx := c.window(), t.Context()
	require.Error(t, w.Schedule(ctx), "conflict")
	require.NoError(t, w.Schedule(ctx))
	assert.Equal(t, []string{"third.example", v1alpha1.MaintenanceRequestorID}, c.all()[0].Spec.AdditionalRequestors)
}

func TestOwnMaintenanceThatOthersStillUseIsReleased(t *testing.T) {
	c := newCluster(t, interceptor.Funcs{})
	w, ctx := c.window(), t.Context()
	require.NoError(t, w.Schedule(ctx))
	c.work()
	o := c.all()[0]
	o.Spec.AdditionalRequestors = []string{"other.example"}
	require.NoError(t, c.Update(ctx, &o))
	require.NoError(t, w.Release(ctx))
	c.work()
	require.Len(t, c.all(), 1, "still held by the other")
	c.requirePhase(w, step.MaintenanceNone)
}

// TestNothingReadyWithoutAPI proves R001-20.
func TestNothingReadyWithoutAPI(t *testing.T) {
	noKind := &meta.NoKindMatchError{GroupKind: mo.GroupVersion.WithKind("NodeMaintenance").GroupKind()}
	c := newCluster(t, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return noKind },
	})
	w := c.window()
	require.NoError(t, w.Schedule(t.Context()))
	s, err := w.State(t.Context())
	require.NoError(t, err)
	assert.Equal(t, step.MaintenanceNotInstalled, s.Phase)
	assert.Contains(t, s.Message, "install the maintenance-operator")
}

func TestUnreachableServerIsAnError(t *testing.T) {
	c := newCluster(t, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("connection refused")
		},
	})
	_, err := c.window().State(t.Context())
	require.Error(t, err)
}

// A label that anybody can put on a pod spares the pod nothing where the daemon executes the job.
func TestADrainSparesNoPodButThoseThatExecuteJobs(t *testing.T) {
	for _, tc := range []struct {
		drain    *mo.DrainSpec
		selector string
	}{{nil, ""}, {nodemaintenance.DrainAllButJobs(), "!nodefirmware.io/job"}} {
		c := newCluster(t, interceptor.Funcs{})
		window := c.window()
		window.Drain = tc.drain
		require.NoError(t, window.Schedule(t.Context()))
		require.Len(t, c.all(), 1)
		drain := c.all()[0].Spec.DrainSpec
		assert.Equal(t, tc.selector, drain.PodSelector)
		assert.True(t, drain.Force && drain.DeleteEmptyDir && drain.TimeoutSecond == 0)
	}
}
