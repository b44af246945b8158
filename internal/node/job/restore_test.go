package job_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// byPerson creates a job of a type that only persons make.
func (d *daemon) byPerson(name string, kind v1alpha1.JobType, devices ...v1alpha1.TaskDevice) {
	d.T.Helper()
	require.NoError(d.T, d.env.Client.Create(d.T.Context(), &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.FirmwareJobSpec{NodeName: nodeName, Task: v1alpha1.JobTask{Type: kind, Devices: devices, HealthyFor: "0s"}},
	}))
}

// runs takes a job up, executes it, and reports its end.
func (d *daemon) runs(name string) *v1alpha1.FirmwareJob {
	d.T.Helper()
	require.NoError(d.T, d.reconcile(name))
	d.work()
	require.NoError(d.T, d.reconcile(name))
	return d.get(name)
}

// A backup needs no admission. What it read is what a restore puts back, once it is admitted, on a node that a failed job holds.
func TestBackupAndRestoreOfAHeldNode(t *testing.T) {
	d := newDaemon(t)
	nic := d.ReadBackNIC(inventory.ActivateNone)
	d.create("update", nic)
	named := v1alpha1.TaskDevice{Name: "node-nic0"}
	d.byPerson("backup", v1alpha1.JobTypeBackup, named)
	got := d.runs("backup")
	require.True(t, meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionComplete), "%+v", got.Status)
	assert.Equal(t, "The firmware of 1 of 1 device was backed up.", condition(got, v1alpha1.ConditionReady).Message)
	assert.Zero(t, d.Window.Scheduled)

	d.Sim.Inject("nic0", drivertest.FailWrite)
	d.admit("update")
	require.True(t, d.runs("update").Held())
	d.byPerson("unsafe", v1alpha1.JobTypeBackup)
	assert.True(t, d.runs("unsafe").Ended())
	require.True(t, d.get("update").Held(), "a backup ends no hold")

	d.byPerson("lost", v1alpha1.JobTypeRestore, v1alpha1.TaskDevice{Name: "node-nic0", Version: "7"})
	d.admit("lost")
	got = d.runs("lost")
	assert.Equal(t, v1alpha1.ReasonRollbackUnavailable, condition(got, v1alpha1.ConditionFailed).Reason)
	require.NoError(t, d.reconcile("update"))
	require.True(t, d.get("update").Held(), "a restore of nothing ends no hold")

	d.Sim.Clear("nic0")
	named.Version = "1.0"
	d.byPerson("restore", v1alpha1.JobTypeRestore, named)
	require.NoError(t, d.reconcile("restore"))
	d.work()
	require.Nil(t, d.get("restore").Status.StartTime, "not admitted")
	d.admit("restore")
	got = d.runs("restore")
	require.True(t, meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionComplete), "%+v", got.Status)
	require.NoError(t, d.reconcile("update"))
	assert.False(t, d.get("update").Held())
	assert.Equal(t, 1, d.Window.Released)
	view, err := d.journal.View()
	require.NoError(t, err)
	assert.Equal(t, v1alpha1.ReasonRestored, view.Devices["nic0"].LastFailure.Reason)
}
