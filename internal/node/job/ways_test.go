package job_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/discovery"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Whatever a node is held for, the command in the message returns it to service.
func TestWaysOutOfAHold(t *testing.T) {
	for name, c := range map[string]struct {
		row, reason string
		faults      []drivertest.Fault
		lost        bool
	}{
		"a failed write":         {"NodeFirmware WriteFailed", v1alpha1.ReasonWriteFailed, []drivertest.Fault{drivertest.FailWrite}, false},
		"a rollback that failed": {"NodeFirmware NeedsIntervention", v1alpha1.ReasonNeedsIntervention, []drivertest.Fault{drivertest.FailActivate, drivertest.FailRevert}, false},
		"lost state":             {"NodeFirmware JobRejected", v1alpha1.ReasonJobRejected, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t)
			d.node()
			id := d.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
			for _, f := range c.faults {
				d.Sim.Inject("nic0", f)
			}
			d.create("j", id)
			d.admit("j")
			require.NoError(t, d.reconcile("j"))
			if c.lost {
				d.Window.Change(func() { d.Window.Phase = step.MaintenanceReady })
				d.loses()
				require.NoError(t, d.reconcile("j"))
			}
			d.work()
			require.NoError(t, d.reconcile("j"))
			held := condition(d.get("j"), v1alpha1.ConditionHeld)
			require.NotNil(t, held)
			require.Equal(t, c.reason, held.Reason)
			require.Equal(t, step.MaintenanceReady, d.Window.Phase)

			d.publishes()
			d.env.TypeWayOut(t, "../../..", c.row, &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: nodeName}})
			require.NoError(t, d.reconcile("j"))
			d.work()
			require.NoError(t, d.reconcile("j"))
			assert.False(t, d.get("j").Held())
			assert.Equal(t, step.MaintenanceNone, d.Window.Phase)
		})
	}
}

// notListed is the host of a node whose devices nobody can list, so that nothing but the node itself is published.
type notListed struct{}

func (notListed) ScanGuarded(context.Context, host.Guard) (host.Inventory, error) {
	return host.Inventory{BootID: "b", Incomplete: map[inventory.Class]error{
		inventory.NIC: errors.New("no sysfs"), inventory.Disk: errors.New("no sysfs"), inventory.BIOS: errors.New("no sysfs"),
	}}, nil
}

// publishes says on the NodeFirmware what the journal holds.
func (d *daemon) publishes() {
	d.T.Helper()
	require.NoError(d.T, discovery.New(discovery.Config{
		Node: nodeName, Interval: time.Hour, Host: notListed{}, Journal: d.journal, Writes: d.Machine, Client: d.env.Client, Reader: d.env.Client, Log: logr.Discard(),
	}).Refresh(d.T.Context()))
}

// What a person restored from the archive stays, until the command in the message has the desired firmware flashed again.
func TestWayOutOfARestore(t *testing.T) {
	d := newDaemon(t)
	d.node()
	nic := d.ReadBackNIC(inventory.ActivateNone)
	d.create("update", nic)
	d.admit("update")
	require.NotNil(t, condition(d.runs("update"), v1alpha1.ConditionComplete))
	d.byPerson("restore", v1alpha1.JobTypeRestore, v1alpha1.TaskDevice{Name: "node-nic0", Version: "1.0"})
	d.admit("restore")
	require.NotNil(t, condition(d.runs("restore"), v1alpha1.ConditionComplete))

	d.create("early", nic)
	d.admit("early")
	failed := condition(d.runs("early"), v1alpha1.ConditionFailed)
	require.NotNil(t, failed, "a restored device is left alone")
	writes := d.Sim.Count(drivertest.OpWrite, "nic0")

	view, err := d.journal.View()
	require.NoError(t, err)
	require.Equal(t, v1alpha1.ReasonRestored, view.Devices["nic0"].LastFailure.Reason)
	device := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "node-nic0"}}
	require.NoError(t, d.env.Client.Get(t.Context(), client.ObjectKeyFromObject(device), device))
	device.Status.Conditions = status.Device(status.DeviceFacts{
		Node: nodeName, Desired: "2.0", Observed: plan.Facts{Driver: "sim", Running: "1.0"},
		Verdict: plan.Decision{Outcome: plan.Blocked, Reason: plan.Reason(view.Devices["nic0"].LastFailure.Reason), Version: "2.0"},
	}, nil, device.Generation, time.Now())
	require.NoError(t, d.env.Client.Status().Update(t.Context(), device))
	d.env.TypeWayOut(t, "../../..", "NodeDevice Restored", device)

	d.create("again", nic)
	d.admit("again")
	require.NotNil(t, condition(d.runs("again"), v1alpha1.ConditionComplete), "%+v", d.get("again").Status)
	assert.Equal(t, writes+1, d.Sim.Count(drivertest.OpWrite, "nic0"))
}

// A cancellation that waits for a step by its grace period is made one by force.
func TestWayOutOfAGracePeriod(t *testing.T) {
	d := newDaemon(t)
	d.create("j", d.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset))
	d.admit("j")
	typed := false
	d.OnSnapshot = func(s engine.Snapshot) {
		d.r.Notify(s)
		if c := s.Job.CurrentStep(); c != nil && c.Kind == plan.Archive && c.State == step.Running && !typed {
			typed = true
			o := d.get("j")
			o.Spec.Cancel = &v1alpha1.JobCancel{GracePeriod: "1h"}
			require.NoError(t, d.env.Client.Update(t.Context(), o))
			require.NoError(t, d.reconcile("j"))
			cancelling := condition(d.get("j"), v1alpha1.ConditionCancelling)
			require.NotNil(t, cancelling)
			d.env.TypeWayOut(t, "../../..", "FirmwareJob WaitingForStep", d.get("j"))
		}
		require.NoError(t, d.reconcile("j"))
	}
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	require.True(t, typed)
	got := d.get("j")
	assert.Equal(t, v1alpha1.CancelForce, got.Spec.Cancel.Mode)
	require.NotNil(t, condition(got, v1alpha1.ConditionFailed))
	assert.Equal(t, v1alpha1.ReasonCancelled, condition(got, v1alpha1.ConditionFailed).Reason)
	assert.Nil(t, condition(got, v1alpha1.ConditionHeld))
}
