package job_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// A request that was there before the job began releases nothing, whatever the clock of the node says (F4, I9).
func TestRequestFromBeforeTheJobReleasesNothing(t *testing.T) {
	d := newDaemon(t)
	node := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	node.Spec.Requests.Release = "for the last one"
	require.NoError(t, d.env.Client.Create(t.Context(), node))
	id := d.Add(inventory.Disk, "disk0", inventory.ActivateNone)
	d.Sim.Inject("disk0", drivertest.FailWrite)
	d.create("j", id)
	d.admit("j")
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	d.work()
	assert.Equal(t, step.MaintenanceReady, d.Window.Phase)
	node.Spec.Requests.Release = ""
	require.NoError(t, d.env.Client.Update(t.Context(), node))
	require.NoError(t, d.reconcile("j"))
	d.work()
	assert.Equal(t, step.MaintenanceReady, d.Window.Phase, "removing a request is none")
	node.Spec.Requests.Release = "as it is"
	require.NoError(t, d.env.Client.Update(t.Context(), node))
	require.NoError(t, d.reconcile("j"))
	d.work()
	assert.Equal(t, step.MaintenanceNone, d.Window.Phase)
}

// A job of the same name that only waits does not stand between a person and the node.
func TestHeldNodeIsReleasedThoughAnotherJobHasTheName(t *testing.T) {
	d := newDaemon(t)
	id := d.Add(inventory.Disk, "disk0", inventory.ActivateNone)
	d.Sim.Inject("disk0", drivertest.FailWrite)
	o := d.create("j", id)
	d.admit("j")
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	require.NoError(t, d.env.Client.Delete(t.Context(), o))
	d.create("j", id)
	node := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	node.Spec.Requests.Release = "2001-01-01T00:00:00Z" // of a clock far back
	require.NoError(t, d.env.Client.Create(t.Context(), node))
	require.NoError(t, d.reconcile("j"))
	d.work()
	assert.Equal(t, step.MaintenanceNone, d.Window.Phase)
}

// A failed job holds its node out of service. Where its maintenance vanished meanwhile, the node takes workloads.
func TestHeldNodeWhoseMaintenanceVanishedIsTakenOutOfServiceAgain(t *testing.T) {
	d := newDaemon(t)
	id := d.Add(inventory.Disk, "disk0", inventory.ActivateNone)
	d.Sim.Inject("disk0", drivertest.FailWrite)
	d.create("j", id)
	d.admit("j")
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	d.Window.Change(func() { d.Window.Phase = step.MaintenanceNone })
	require.NoError(t, d.reconcile("j"))
	assert.Equal(t, step.MaintenanceReady, d.Window.Phase, "it was requested, and looked at")
}

// Who uncordons a held node is not overruled, and the job says what is so and what is not done about it.
func TestUncordonIsNamed(t *testing.T) {
	d := newDaemon(t)
	id := d.Add(inventory.Disk, "disk0", inventory.ActivateNone)
	d.Sim.Inject("disk0", drivertest.FailWrite)
	d.create("j", id)
	d.admit("j")
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	require.NoError(t, d.reconcile("j"))
	held := func() string {
		return meta.FindStatusCondition(d.get("j").Status.Conditions, v1alpha1.ConditionHeld).Message
	}
	assert.Contains(t, held(), "stays out of service")
	looked := d.looked
	d.Window.Change(func() { d.Window.Phase, d.Window.Message = step.MaintenanceBroken, "kured uncordoned it" })
	for range 3 {
		require.NoError(t, d.reconcile("j"))
	}
	assert.Contains(t, held(), "may take workloads, and nobody cordons it again but a retry, which drains it too (kured uncordoned it)")
	assert.Equal(t, looked+1, d.looked, "it is said once")
	version := d.get("j").ResourceVersion
	require.NoError(t, d.reconcile("j"))
	assert.Equal(t, version, d.get("j").ResourceVersion)
}

// Who takes a node in the middle of a job is named on the job, also while it holds the node.
func TestWhoTakesTheNodeMeanwhileIsNamed(t *testing.T) {
	const has = "NodeHealthCheck-gpu has the node too"
	for name, fails := range map[string]bool{"while it runs": false, "while it holds the node": true} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t)
			id := d.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
			if fails {
				d.Sim.Inject("nic0", drivertest.FailWrite)
			}
			d.create("j", id)
			d.admit("j")
			var said []string
			note := func() {
				if c := condition(d.get("j"), v1alpha1.ConditionMaintenanceReady); c != nil && c.Status == metav1.ConditionTrue {
					said = append(said, c.Message)
				}
			}
			d.OnSnapshot = func(s engine.Snapshot) {
				d.r.Notify(s)
				if c := s.Job.CurrentStep(); !fails && c != nil && c.Kind == plan.Flash && c.State == step.Running {
					d.Window.Change(func() { d.Window.Message = has })
				}
				require.NoError(t, d.reconcile("j"))
				note()
			}
			require.NoError(t, d.reconcile("j"))
			d.work()
			require.NoError(t, d.reconcile("j"))
			if fails {
				note()
				d.Window.Change(func() { d.Window.Message = has })
				require.NoError(t, d.reconcile("j"))
				require.NoError(t, d.reconcile("j"))
				note()
			}
			assert.Equal(t, []string{"The node is out of service.", has + "."}, slices.Compact(said))
		})
	}
}
