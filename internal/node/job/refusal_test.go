package job_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// assign changes what a device should run, behind the back of its job.
func (d *daemon) assign(device string, change func(*v1alpha1.DesiredFirmware)) {
	d.T.Helper()
	o := &v1alpha1.NodeDevice{}
	require.NoError(d.T, d.env.Client.Get(d.T.Context(), client.ObjectKey{Name: device}, o))
	change(o.Spec.Firmware)
	require.NoError(d.T, d.env.Client.Update(d.T.Context(), o))
}

func (d *daemon) requireRefused(name, reason string) {
	d.T.Helper()
	require.NoError(d.T, d.reconcile(name))
	d.work()
	require.NoError(d.T, d.reconcile(name))
	got := d.get(name)
	require.NotNil(d.T, condition(got, v1alpha1.ConditionFailed))
	assert.Equal(d.T, reason, condition(got, v1alpha1.ConditionFailed).Reason)
	assert.False(d.T, got.Held())
	apitest.RequireStatus(d.T, got, kstatus.FailedStatus)
}

// An admission is not enough: what is flashed is what the operator assigned to the device.
func TestJobThatDisagreesWithItsDeviceWritesNothing(t *testing.T) {
	d := newDaemon(t)
	d.create("j", d.Add(inventory.Disk, "disk0", inventory.ActivateNone))
	d.assign("node-disk0", func(w *v1alpha1.DesiredFirmware) { w.Version = "3.0" })
	d.admit("j")
	d.requireRefused("j", v1alpha1.ReasonJobRejected)
	assert.Empty(t, d.Sim.Operations())
	view, err := d.journal.View()
	require.NoError(t, err)
	assert.Nil(t, view.Devices["disk0"].LastFailure, "it says nothing about the image")
}

// A job that must not begin does not take a held node over, whose end would return it to service.
func TestRejectedJobKeepsNodeHeld(t *testing.T) {
	d := newDaemon(t)
	id := d.Add(inventory.Disk, "disk0", inventory.ActivateNone)
	d.Sim.Inject("disk0", drivertest.FailWrite)
	d.create("first", id)
	d.admit("first")
	require.NoError(t, d.reconcile("first"))
	d.work()
	require.NoError(t, d.reconcile("first"))
	d.create("second", id)
	d.assign("node-disk0", func(w *v1alpha1.DesiredFirmware) { w.Version = "3.0" })
	d.admit("second")
	d.requireRefused("second", v1alpha1.ReasonJobRejected)
	assert.Equal(t, step.MaintenanceReady, d.Window.Phase)
	view, err := d.journal.View()
	require.NoError(t, err)
	require.NotNil(t, view.Held())
	assert.Equal(t, "first", view.Held().Name)
}

// restored makes the job what it was when the backup was made.
func (d *daemon) restored(name string, status v1alpha1.FirmwareJobStatus) {
	d.T.Helper()
	o := d.get(name)
	o.Status = status
	meta.RemoveStatusCondition(&o.Status.Conditions, v1alpha1.ConditionReconciling) // it would be this test's, and stay
	require.NoError(d.T, d.env.Client.Status().Update(d.T.Context(), o))
}

// An API server that was restored from yesterday's etcd offers jobs that ran since. None runs twice, whatever the journal has of
// them and whatever else the node does.
func TestJobsOfARestoredAPIServerDoNotRunTwice(t *testing.T) {
	ran := func(t *testing.T) (d *daemon, admitted, started v1alpha1.FirmwareJobStatus) {
		d = newDaemon(t)
		d.create("j", d.Add(inventory.Disk, "disk0", inventory.ActivateNone))
		d.admit("j")
		admitted = d.get("j").Status
		require.NoError(t, d.reconcile("j"))
		started = d.get("j").Status
		require.NotNil(t, started.StartTime)
		d.work()
		require.NoError(t, d.reconcile("j"))
		require.Equal(t, 1, d.Sim.Count(drivertest.OpWrite, "disk0"))
		return d, admitted, started
	}
	lost := func(d *daemon) { // the state directory was lost
		d.restart(t.TempDir())
	}
	for _, when := range []string{"admitted", "started"} {
		t.Run("the journal has the job, which was "+when, func(t *testing.T) {
			d, admitted, started := ran(t)
			d.restored("j", map[string]v1alpha1.FirmwareJobStatus{"admitted": admitted, "started": started}[when])
			require.NoError(t, d.reconcile("j"))
			d.work()
			require.NoError(t, d.reconcile("j"))
			assert.NotNil(t, condition(d.get("j"), v1alpha1.ConditionComplete))
			assert.Equal(t, 1, d.Sim.Count(drivertest.OpWrite, "disk0"))
		})
	}
	t.Run("the journal was lost", func(t *testing.T) {
		d, _, started := ran(t)
		lost(d)
		d.restored("j", started)
		d.requireRefused("j", v1alpha1.ReasonJobRejected)
		assert.Equal(t, 1, d.Sim.Count(drivertest.OpWrite, "disk0"))
	})
	t.Run("the journal was lost, and the job waits", func(t *testing.T) {
		d, _, started := ran(t)
		lost(d)
		require.NoError(t, d.journal.Save(journal.Job{Name: "other", UID: "other", Accepted: time.Now()}))
		started.Conditions = nil
		d.restored("j", started)
		require.NoError(t, d.reconcile("j"))
		require.NoError(t, d.reconcile("j"))
		assert.Equal(t, v1alpha1.ReasonJobRejected, condition(d.get("j"), v1alpha1.ConditionFailed).Reason, "to report that it waits would hide that it began")
	})
}

// A job of steps may erase something. The journal remembers that it began when it has dropped everything else of it.
func TestStepsOfARestoredAPIServerDoNotRunTwice(t *testing.T) {
	d := newDaemon(t)
	d.r.Catalog = plan.DefaultCatalog()
	d.create("j", d.Add(inventory.Disk, "disk0", inventory.ActivateNone))
	o := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "steps"}, Spec: v1alpha1.FirmwareJobSpec{
		NodeName: nodeName, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{{Name: "reset-bios-settings"}}},
	}}
	require.NoError(t, d.env.Client.Create(t.Context(), o))
	d.admit("steps")
	admitted := d.get("steps").Status
	require.NoError(t, d.reconcile("steps"))
	d.work()
	require.NoError(t, d.reconcile("steps"))
	require.True(t, d.get("steps").Ended())
	now := time.Now()
	for i := range 20 {
		done := journal.Job{Name: fmt.Sprint("later", i), UID: fmt.Sprint("later", i), Accepted: now.Add(time.Duration(i+1) * time.Second), Finished: &now, Reported: true}
		done.Record.Outcome = step.Complete
		require.NoError(t, d.journal.Save(done))
	}
	view, err := d.journal.View()
	require.NoError(t, err)
	require.Nil(t, view.Job(string(o.UID)), "the journal keeps the newest only")
	d.restored("steps", admitted)
	d.requireRefused("steps", v1alpha1.ReasonJobRejected)
}

// R003-48: one manifest that is applied again, or restored from a backup, makes a job with another UID, which erases nothing again.
func TestJobOfTheSameNameDoesNotEraseADriveAgain(t *testing.T) {
	d := newDaemon(t)
	d.r.Catalog = plan.DefaultCatalog()
	d.create("j", d.Add(inventory.Disk, "disk0", inventory.ActivateNone), d.Add(inventory.Disk, "disk1", inventory.ActivateNone))
	updates, now := d.Job("j", d.IDs...).Updates, time.Now()
	erases := step.Step{Step: plan.Step{Kind: plan.Erase, Device: updates[0].Device, Task: true}, State: step.StepFault}
	var cancel *string
	save := func(uid, name string) {
		done := journal.Job{Name: name, UID: uid, Accepted: now, Finished: &now, Reported: true, Requested: []journal.RequestedStep{{Name: "erase"}}, Updates: updates, Cancel: cancel}
		done.Record = step.Record{Updates: []step.Update{{Device: updates[0].Device}}, Steps: []step.Step{erases}, Outcome: step.Failed, Failure: &step.Failure{Reason: step.StepFailed, Message: "x", Step: plan.Erase}}
		require.NoError(t, d.journal.Save(done))
	}
	save("uid-refused", "refused-before")
	erases.Data = []byte("{}")
	save("uid-erases", "erases")
	erases.Data, cancel = nil, new("cancelled before it sampled the drive")
	save("uid-cancelled", "cancelled")
	for name, c := range map[string]struct {
		device int
		again  bool
	}{"erases": {0, true}, "cancelled": {0, true}, "refused-before": {0, false}, "other": {0, false}} {
		o := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareJobSpec{
			NodeName: nodeName, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{{
				Name: "erase", Device: updates[c.device].Device, Arguments: []v1alpha1.StepArgument{{Name: "serialNumber", Value: "S1"}},
			}}},
		}}
		require.NoError(t, d.env.Client.Create(t.Context(), o))
		d.admit(name)
		require.NoError(t, d.reconcile(name))
		d.work()
		require.NoError(t, d.reconcile(name))
		failed := condition(d.get(name), v1alpha1.ConditionFailed)
		require.NotNil(t, failed, name)
		const again = "was to erase"
		assert.Equal(t, c.again, strings.Contains(failed.Message, again), "%s: %s", name, failed.Message)
		assert.Equal(t, c.again, failed.Reason == v1alpha1.ReasonJobRejected, "%s: %s", name, failed.Message)
	}
	erased, err := d.journal.Erased("erases", updates[1].UniqueID)
	require.NoError(t, err)
	assert.False(t, erased, "another drive")
}
