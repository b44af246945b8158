package planner

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// What a person restored is not updated again until something else is desired, or a person asks for it (R002-11).
func TestRestoredDeviceIsNotPlannedAgain(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	w.edit("nic", func(d *v1alpha1.NodeDevice) {
		d.Status.Failure = &v1alpha1.DeviceFailure{Reason: v1alpha1.ReasonRestored, Digest: d.Spec.Firmware.Digest, Job: "restore"}
	})
	w.settle()
	require.Empty(t, w.jobs())
	w.assign("nic", 3)
	w.settle()
	assert.Equal(t, "nic=3", devices(w.queued()))
	w.assign("nic", 2)
	w.settle()
	require.Nil(t, w.queued(), "the restored one is no more desired than before")
	w.retry()
	w.settle()
	assert.Equal(t, "nic=2", devices(w.queued()))
}

// A restore that failed and holds the node waits for a person, whatever is desired.
func TestHeldRestoreIsNotTakenOverByAnUpdate(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	restore := w.byHand("restore", v1alpha1.JobTypeRestore)
	w.set(restore, nil, v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	w.assign("nic", 3)
	w.settle()
	require.Nil(t, w.queued())
	w.retry()
	w.settle()
	assert.Equal(t, "nic=3", devices(w.queued()))
}
