package job_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// The steps are taken one by one, and the job's conditions, its steps and the progress of a long one follow them while they
// run (R001-7, R000-63).
func TestConditionsFollowTheSteps(t *testing.T) {
	d := newDaemon(t)
	d.create("j", d.Add(inventory.BIOS, "bios", inventory.ActivateReboot))
	d.admit("j")
	var steps, maintenance []string
	var percent []int32
	d.OnSnapshot = func(s engine.Snapshot) {
		d.r.Notify(s)
		require.NoError(t, d.reconcile("j"))
		got := d.get("j")
		running := 0
		for _, st := range got.Status.Steps {
			if st.State == v1alpha1.StepRunning {
				running++
				steps = append(steps, st.Name)
				if st.ProgressPercent != nil {
					percent = append(percent, *st.ProgressPercent)
				}
			}
		}
		assert.LessOrEqual(t, running, 1, "one at a time")
		if c := condition(got, v1alpha1.ConditionMaintenanceReady); c != nil {
			maintenance = append(maintenance, string(c.Status)+" "+c.Reason)
		}
		if c := condition(got, v1alpha1.ConditionReady); !got.Ended() {
			assert.Equal(t, v1alpha1.ReasonProgressing, c.Reason)
		}
	}
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	assert.True(t, d.get("j").Ended())
	assert.Equal(t, []string{"preflight", "archive", "maintenance", "flash", "reboot", "verify", "health", "release"}, slices.Compact(steps))
	assert.Equal(t, []string{"False Pending", "True Succeeded", "False Released"}, slices.Compact(maintenance))
	require.NotEmpty(t, percent)
	assert.True(t, slices.IsSorted(percent), "%v", percent)
}

// A person cancels a job that runs by its spec: before the first write it ends at once, and the node goes back (R000-62).
func TestCancelInTheSpecOfARunningJobTakesEffect(t *testing.T) {
	d := newDaemon(t)
	d.create("j", d.Add(inventory.BIOS, "bios", inventory.ActivateReboot))
	d.admit("j")
	asked := false
	d.OnSnapshot = func(s engine.Snapshot) {
		d.r.Notify(s)
		if c := s.Job.CurrentStep(); !asked && c != nil && c.Kind == plan.Maintenance {
			asked = true
			o := d.get("j")
			o.Spec.Cancel = &v1alpha1.JobCancel{}
			require.NoError(t, d.env.Client.Update(t.Context(), o))
		}
		require.NoError(t, d.reconcile("j"))
	}
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	require.True(t, asked)
	got := d.get("j")
	require.NotNil(t, condition(got, v1alpha1.ConditionFailed))
	assert.Equal(t, v1alpha1.ReasonCancelled, condition(got, v1alpha1.ConditionFailed).Reason)
	assert.Contains(t, condition(got, v1alpha1.ConditionFailed).Message, "spec.cancel asks for it")
	assert.Nil(t, condition(got, v1alpha1.ConditionHeld))
	assert.Empty(t, d.Sim.Operations())
	assert.NotEqual(t, step.MaintenanceReady, d.Window.Phase)
}

// A person cancels by force while a write runs, after a cancellation with a grace period: the write goes on, the job says that it
// waits for it, and ends right after it (R000-62, R000-66).
func TestForceInTheSpecIsRefusedDuringAWriteAndSaysSo(t *testing.T) {
	d := newDaemon(t)
	d.create("j", d.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset))
	d.admit("j")
	var said []string
	d.OnSnapshot = func(s engine.Snapshot) {
		d.r.Notify(s)
		if c := s.Job.CurrentStep(); c != nil && c.Kind == plan.Flash && c.State == step.Running && len(said) == 0 {
			for _, spec := range []v1alpha1.JobCancel{
				{GracePeriod: "10m"},
				{GracePeriod: "10m", Mode: v1alpha1.CancelForce},
			} {
				o := d.get("j")
				o.Spec.Cancel = &spec
				require.NoError(t, d.env.Client.Update(t.Context(), o))
				require.NoError(t, d.reconcile("j"))
				cancelling := condition(d.get("j"), v1alpha1.ConditionCancelling)
				require.NotNil(t, cancelling)
				assert.Equal(t, v1alpha1.ReasonWaitingForStep, cancelling.Reason)
				said = append(said, cancelling.Message)
			}
		}
		require.NoError(t, d.reconcile("j"))
	}
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	require.Len(t, said, 2)
	assert.Contains(t, said[0], "never interrupted")
	assert.Contains(t, said[1], "not even by force")
	got := d.get("j")
	assert.Equal(t, v1alpha1.ReasonCancelled, condition(got, v1alpha1.ConditionFailed).Reason)
	assert.NotNil(t, condition(got, v1alpha1.ConditionHeld))
	assert.Nil(t, condition(got, v1alpha1.ConditionCancelling))
	assert.Equal(t, inventory.Version("2.0"), d.Sim.Firmware("nic0").Stored)
}
