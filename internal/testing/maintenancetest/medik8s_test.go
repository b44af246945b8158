package maintenancetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	controller "github.com/nodefirmware/node-firmware-operator/internal/controller/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/drain"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/drainrequest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

const leases, excludeLabel = "medik8s-leases", "remediation.medik8s.io/exclude-from-remediation"

// agreed is a node that is agreed on with medik8s, by operators that know nothing but what the API holds.
type agreed struct {
	*testing.T
	client.Client
	clock  time.Time
	node   *corev1.Node
	window *drainrequest.Window
	pods   kubernetes.Interface
}

func newAgreed(t *testing.T) *agreed {
	env := apitest.New(t)
	a := &agreed{T: t, Client: env.Client, clock: time.Now(), window: &drainrequest.Window{Client: env.Client, NodeName: NodeName}}
	require.NoError(t, client.IgnoreAlreadyExists(a.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: leases}})))
	require.NoError(t, a.Create(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: NodeName}}))
	admitted(t, env)
	require.NoError(t, a.DeleteAllOf(t.Context(), &coordinationv1.Lease{}, client.InNamespace(leases)))
	a.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: NodeName}}
	require.NoError(t, a.Create(t.Context(), a.node))
	var err error
	a.pods, err = kubernetes.NewForConfig(env.Config)
	require.NoError(t, err)
	return a
}

// look is one of an operator that was started just before: whatever it does, it may be killed after it. It returns what the daemon sees then.
func (a *agreed) look() maintenance.State {
	a.Helper()
	for range 4 {
		r := controller.New(a.Client, a.pods, drain.Options{Force: true}).Agreeing(leases, func() time.Time { return a.clock })
		_, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: types.NamespacedName{Name: NodeName}})
		require.NoError(a, err)
	}
	require.NoError(a, a.Get(a.Context(), client.ObjectKeyFromObject(a.node), a.node))
	state, err := a.window.State(a.Context())
	require.NoError(a, err)
	return state
}

// read is the Lease of the node; nil where there is none.
func (a *agreed) read() *coordinationv1.Lease {
	a.Helper()
	got := &coordinationv1.Lease{}
	err := a.Get(a.Context(), client.ObjectKey{Namespace: leases, Name: "node-" + NodeName}, got)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(a, err)
	return got
}

// takes has somebody take the Lease for a minute, or renew it.
func (a *agreed) takes(who string) {
	a.Helper()
	lease, is := a.read(), a.read() != nil
	if !is {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leases, Name: "node-" + NodeName}}
	}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &who, LeaseDurationSeconds: ptr.To(int32(60)), RenewTime: &metav1.MicroTime{Time: a.clock}}
	if is {
		require.NoError(a, a.Update(a.Context(), lease))
		return
	}
	require.NoError(a, a.Create(a.Context(), lease))
}

func TestNodeIsAgreedOnWithMedik8s(t *testing.T) {
	a := newAgreed(t)
	a.takes("NodeHealthCheck-gpu")
	require.NoError(t, a.window.Schedule(t.Context()))
	assert.Contains(t, a.look().Message, "Somebody else has node "+NodeName+": NodeHealthCheck-gpu (Lease medik8s-leases/node-"+NodeName)
	assert.False(t, a.node.Spec.Unschedulable)
	assert.NotContains(t, a.node.Labels, excludeLabel)

	a.clock = a.clock.Add(2 * time.Minute) // nobody renews it
	assert.Equal(t, step.MaintenanceReady, a.look().Phase)
	got := a.read()
	require.NotNil(t, got)
	assert.Equal(t, "node-firmware-operator", *got.Spec.HolderIdentity)
	assert.Equal(t, int32(1), *got.Spec.LeaseTransitions)
	assert.Equal(t, a.node.UID, got.OwnerReferences[0].UID)
	assert.Equal(t, "true", a.node.Labels[excludeLabel])

	a.clock = a.clock.Add(21 * time.Minute)
	a.look()
	assert.Equal(t, a.clock.Unix(), a.read().Spec.RenewTime.Unix(), "renewed long before it runs out")
	version := a.read().ResourceVersion
	a.look()
	assert.Equal(t, version, a.read().ResourceVersion, "and no more often")

	require.NoError(t, a.window.Release(t.Context())) // while no operator runs
	a.clock = a.clock.Add(2 * time.Hour)
	a.look()
	a.requireReturned()

	require.NoError(t, a.window.Schedule(t.Context()))
	a.look()
	require.NotNil(t, a.read())
	require.NoError(t, a.DeleteAllOf(t.Context(), &v1alpha1.FirmwareJob{}))
	a.look()
	assert.Nil(t, a.read(), "a job that is gone has nothing")
	assert.NotContains(t, a.node.Labels, excludeLabel)
	assert.True(t, a.node.Spec.Unschedulable, "nothing but a request returns a node")
}

func (a *agreed) requireReturned() {
	a.Helper()
	assert.Nil(a, a.read())
	assert.NotContains(a, a.node.Labels, excludeLabel)
	assert.NotContains(a, a.node.Annotations, v1alpha1.ExcludedAnnotation)
	assert.False(a, a.node.Spec.Unschedulable)
}

// An operator that is down for longer than its Lease lasts loses it.
func TestALostLeaseIsNamed(t *testing.T) {
	a := newAgreed(t)
	require.NoError(t, a.window.Schedule(t.Context()))
	ready := a.look()
	require.Equal(t, step.MaintenanceReady, ready.Phase)
	a.clock = a.clock.Add(2 * time.Hour)
	a.takes("NodeHealthCheck-gpu")
	const has = "NodeHealthCheck-gpu (Lease medik8s-leases/node-" + NodeName + ") has the node too: after the job it stays cordoned until that ends, " +
		"or until you run: kubectl uncordon " + NodeName
	said := a.look()
	assert.Equal(t, maintenance.State{Phase: step.MaintenanceReady, Node: ready.Node, Message: ready.Message + "; " + has}, said)

	a.clock = a.clock.Add(30 * time.Second)
	a.takes("NodeHealthCheck-gpu")
	assert.Equal(t, said, a.look(), "a renewal is no news")

	require.NoError(t, a.window.Release(t.Context()))
	assert.Equal(t, maintenance.State{Phase: step.MaintenanceEnding, Message: has}, a.look(), "it is not returned under their hands")
	assert.True(t, a.node.Spec.Unschedulable)
	assert.Equal(t, "true", a.node.Labels[excludeLabel])
	assert.Equal(t, "NodeHealthCheck-gpu", *a.read().Spec.HolderIdentity)

	a.clock = a.clock.Add(2 * time.Minute)
	assert.Equal(t, step.MaintenanceNone, a.look().Phase)
	assert.Equal(t, "NodeHealthCheck-gpu", *a.read().Spec.HolderIdentity, "what ran out is not the product's to delete")
	assert.NotContains(t, a.node.Labels, excludeLabel)
	assert.False(t, a.node.Spec.Unschedulable)
}

func TestALostLeaseIsTakenAgain(t *testing.T) {
	a := newAgreed(t)
	require.NoError(t, a.window.Schedule(t.Context()))
	ready := a.look()
	a.clock = a.clock.Add(2 * time.Hour)
	a.takes("node-maintenance")
	require.NotEqual(t, ready, a.look())
	require.NoError(t, a.Delete(t.Context(), a.read()))
	assert.Equal(t, ready, a.look(), "nobody is named any more")
	assert.Equal(t, "node-firmware-operator", *a.read().Spec.HolderIdentity)
}

// The page promises the Lease while the job has the node.
func TestTheLeaseLastsAsLongAsTheCordon(t *testing.T) {
	a := newAgreed(t)
	require.NoError(t, a.window.Schedule(t.Context()))
	require.Equal(t, step.MaintenanceReady, a.look().Phase)
	a.sign(true)
	require.NoError(t, a.window.Release(t.Context()))
	for range 3 {
		assert.Equal(t, step.MaintenanceEnding, a.look().Phase)
		require.True(t, a.node.Spec.Unschedulable)
		require.NotNil(t, a.read())
		assert.Equal(t, "node-firmware-operator", *a.read().Spec.HolderIdentity)
		assert.Equal(t, a.clock.Unix(), a.read().Spec.RenewTime.Unix(), "renewed")
		assert.Equal(t, "true", a.node.Labels[excludeLabel])
		a.clock = a.clock.Add(25 * time.Minute)
	}
	a.sign(false)
	assert.Equal(t, step.MaintenanceNone, a.look().Phase)
	a.requireReturned()
}

// sign has another product taint the Node, or take that back.
func (a *agreed) sign(is bool) {
	a.Helper()
	a.node.Spec.Taints = nil
	if is {
		a.node.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
	}
	require.NoError(a, a.Update(a.Context(), a.node))
}

// Without the namespace, or the right to its Leases, no node is taken.
func TestNodeIsLeftAloneWithoutLeases(t *testing.T) {
	env := apitest.New(t)
	require.NoError(t, env.Client.Create(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: NodeName}}))
	admitted(t, env)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: NodeName}}
	require.NoError(t, env.Client.Create(t.Context(), n))
	window := &drainrequest.Window{Client: env.Client, NodeName: NodeName}
	require.NoError(t, window.Schedule(t.Context()))
	r := controller.New(env.Client, nil, drain.Options{}).Agreeing("missing", time.Now)
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: NodeName}})
	require.NoError(t, err)
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(n), n))
	assert.False(t, n.Spec.Unschedulable)
	state, err := window.State(t.Context())
	require.NoError(t, err)
	assert.Contains(t, state.Message, `namespaces "missing" not found`)
	assert.Contains(t, state.Message, "--medik8s-lease-namespace")
}
