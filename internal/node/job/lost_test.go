package job_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// loses starts a daemon on the same machine whose state directory is gone.
func (d *daemon) loses() {
	d.T.Helper()
	require.NoError(d.T, d.journal.Close())
	d.Dir = d.T.TempDir()
	d.restart(d.Dir)
}

// begun is a daemon with a job that took the node out of service, and no more.
func begun(t *testing.T) *daemon {
	d := newDaemon(t)
	d.create("j", d.Add(inventory.Disk, "disk0", inventory.ActivateNone))
	d.admit("j")
	require.NoError(t, d.reconcile("j"))
	d.Window.Change(func() { d.Window.Phase = step.MaintenanceReady })
	return d
}

// node makes the NodeFirmware of the node.
func (d *daemon) node() *v1alpha1.NodeFirmware {
	d.T.Helper()
	node := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	require.NoError(d.T, d.env.Client.Create(d.T.Context(), node))
	return node
}

// heldWith is the message of a job that holds its node for a lost journal.
func (d *daemon) heldWith(name string) string {
	d.T.Helper()
	require.NoError(d.T, d.reconcile(name))
	require.NoError(d.T, d.reconcile(name))
	got := d.get(name)
	require.True(d.T, got.Held(), "%+v", got.Status)
	assert.Equal(d.T, v1alpha1.ReasonJobRejected, got.FailureReason())
	assert.NotEmpty(d.T, d.Window.Failed, "the maintenance says so")
	held := condition(got, v1alpha1.ConditionHeld).Message
	for _, says := range []string{"Node n1 stays out of service", wayout.Retry(nodeName), wayout.Request("nfw", nodeName, "release")} {
		assert.Contains(d.T, held, says)
	}
	return condition(got, v1alpha1.ConditionFailed).Message
}

// The state directory is lost while a job has the node out of service. Nobody knows what the job did, so nothing more is done, the node
// stays out of service, and it is somebody's: a person can ask for another try or for its release.
func TestLostStateHolds(t *testing.T) {
	d := begun(t)
	d.loses()
	message := d.heldWith("j")
	assert.Contains(t, message, "state directory was lost")
	assert.Contains(t, message, "Check the node's devices")
	d.work()
	assert.Empty(t, d.Sim.Operations())
	assert.Equal(t, step.MaintenanceReady, d.Window.Phase)
	view, err := d.journal.View()
	require.NoError(t, err)
	require.NotNil(t, view.Held())
	assert.Equal(t, "j", view.Held().Name)

	d.create("again", d.IDs...)
	d.admit("again")
	require.NoError(t, d.reconcile("again"))
	d.work()
	require.NoError(t, d.reconcile("again"))
	require.NoError(t, d.reconcile("j"))
	assert.True(t, meta.IsStatusConditionTrue(d.get("again").Status.Conditions, v1alpha1.ConditionComplete), "a newer job takes it over")
	assert.False(t, d.get("j").Held())
	assert.Equal(t, step.MaintenanceNone, d.Window.Phase)
}

func TestLostStateReleases(t *testing.T) {
	d := begun(t)
	node := d.node()
	node.Spec.Requests.Release = "for something else"
	require.NoError(t, d.env.Client.Update(t.Context(), node))
	d.loses()
	d.heldWith("j")
	d.work()
	assert.Zero(t, d.Window.Released, "the request was there before the hold")

	node.Spec.Requests.Release = "it looks fine"
	require.NoError(t, d.env.Client.Update(t.Context(), node))
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	assert.Equal(t, 1, d.Window.Released)
	got := d.get("j")
	assert.False(t, got.Held())
	assert.Equal(t, v1alpha1.ReasonReleased, condition(got, v1alpha1.ConditionStalled).Reason)
	assert.Empty(t, d.Sim.Operations())
}

// A job that had failed and held the node holds it still, and whom it blamed stays blamed.
func TestLostHoldStays(t *testing.T) {
	d := newDaemon(t)
	d.create("j", d.Add(inventory.Disk, "disk0", inventory.ActivateNone))
	d.Sim.Inject("disk0", drivertest.FailWrite)
	d.admit("j")
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	before := d.get("j")
	require.True(t, before.Held())
	before.Status.Blamed = []v1alpha1.BlamedDevice{{Device: "node-disk0", Evidence: v1alpha1.EvidenceNetwork, Message: "it was missed"}}
	require.NoError(t, d.env.Client.Status().Update(t.Context(), before))

	d.loses()
	message := d.heldWith("j")
	assert.Contains(t, message, "it had failed with WriteFailed: ")
	got := d.get("j")
	assert.Equal(t, v1alpha1.ReasonNeedsIntervention, condition(got, v1alpha1.ConditionHeld).Reason)
	require.Len(t, got.Status.Blamed, 1)
	assert.Equal(t, "node-disk0", got.Status.Blamed[0].Device)
	assert.Equal(t, v1alpha1.EvidenceNetwork, got.Status.Blamed[0].Evidence)

	d.loses()
	assert.Equal(t, 1, strings.Count(d.heldWith("j"), "state directory was lost"), "it is said once")

	d.loses()
	d.Window.Change(func() { d.Window.Phase = step.MaintenanceNone })
	require.NoError(t, d.reconcile("j"))
	require.NoError(t, d.reconcile("j"))
	assert.False(t, d.get("j").Held(), "the node is in service")
	assert.Len(t, d.get("j").Status.Blamed, 1)
}

// An API server that was restored from a backup offers a job that has ended since. The node is in service, or on its way there, or
// another job has it: it is not held for that.
func TestRestoredAPIHoldsNobody(t *testing.T) {
	for name, phase := range map[string]step.Maintenance{"in service": step.MaintenanceNone, "on its way": step.MaintenanceEnding} {
		t.Run(name, func(t *testing.T) {
			d := begun(t)
			d.loses()
			d.Window.Change(func() { d.Window.Phase = phase })
			d.requireRefused("j", v1alpha1.ReasonJobRejected)
			assert.Empty(t, d.Window.Failed)
		})
	}
	t.Run("of another job", func(t *testing.T) {
		d := begun(t)
		d.loses()
		d.create("other", d.IDs...)
		d.admit("other")
		require.NoError(t, d.reconcile("other"))
		require.NoError(t, d.reconcile("j"))
		require.NoError(t, d.reconcile("j"))
		assert.False(t, d.get("j").Held())
		assert.True(t, d.get("j").Failed())
	})
}

// While nobody says whether the node is out of service, nothing is decided.
func TestUnknownWindowWaits(t *testing.T) {
	d := begun(t)
	d.loses()
	d.Window.Change(func() { d.Window.Err = errors.New("no route to host") })
	require.ErrorContains(t, d.reconcile("j"), "no route to host")
	assert.False(t, d.get("j").Ended())
	d.Window.Change(func() { d.Window.Err = nil })
	d.heldWith("j")
}
