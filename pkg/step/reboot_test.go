package step_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// refused is the record of a job whose host refused to reboot.
func refused() step.Record {
	return at(plan.Reboot, returned(step.Returned{Failure: &step.Failure{
		Reason: step.RebootFailed, Message: "Operation denied due to active block inhibitor",
	}}))
}

// What keeps a host from shutting down, such as a backup, ends. The host is asked again, and no attempt is counted.
func TestRefusedRebootIsRepeated(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		f := ready
		f.Interrupted, f.Waited = interrupted, 14*time.Minute
		a := next(refused(), f)
		assert.Equal(t, step.Poll, a.Verb, a.Message)
		assert.Contains(t, a.Message, "active block inhibitor")
	}
}

// Meanwhile a person may return the node, or another program write to a device.
func TestRefusedRebootStaysSafe(t *testing.T) {
	f := ready
	f.Maintenance = step.MaintenanceNone
	a := next(refused(), f)
	require.NotNil(t, a.Failure, a.Message)
	assert.Equal(t, step.MaintenanceLost, a.Failure.Reason)

	assert.NotEmpty(t, step.Wanted(refused()))
	f = ready
	f.Devices = map[string]step.Device{step.Wanted(refused())[0]: {WriteRunning: true}}
	a = next(refused(), f)
	assert.Equal(t, step.Await, a.Verb, a.Message)
}

func TestEndlessInhibitor(t *testing.T) {
	f := ready
	f.Waited = step.DefaultLimits().Reboot
	a := next(refused(), f)
	require.NotNil(t, a.Failure)
	assert.Equal(t, step.RebootFailed, a.Failure.Reason)
	assert.True(t, a.Failure.Held)
	for _, says := range []string{"refused to reboot for 15m0s", "active block inhibitor", "systemd-inhibit --list"} {
		assert.Contains(t, a.Message, says)
	}
}

// A kernel that another kernel started has a boot id of its own, and no device was reset.
func TestKexecIsNoReset(t *testing.T) {
	f := ready
	f.BootID, f.Kexec = "boot-2", true
	for attempt := int32(1); attempt < step.MaxReboots; attempt++ {
		a := next(at(plan.Reboot, func(s *step.Step) { running(s); s.Attempt, s.Returned = attempt, &step.Returned{} }), f)
		assert.Equal(t, step.Begin, a.Verb, a.Message)
	}
	a := next(at(plan.Reboot, func(s *step.Step) { running(s); s.Attempt, s.Returned = step.MaxReboots, &step.Returned{} }), f)
	require.NotNil(t, a.Failure)
	assert.Equal(t, step.RebootFailed, a.Failure.Reason)
	assert.Empty(t, a.Failure.Blames, "the image is not at fault")
	for _, says := range []string{"by kexec", "kexec -u", "kexec-load", "not reset since their firmware was written"} {
		assert.Contains(t, a.Message, says)
	}

	f.Devices = map[string]step.Device{"nic": {Running: "1", Stored: "1"}, "disk": {Running: "2", Stored: "2"}}
	f.Devices["nic"] = step.Device{Running: "2", Stored: "2"}
	pending := needs(at(plan.Reboot, nil), inventory.ActivateReboot)
	assert.Equal(t, step.Begin, next(pending, f).Verb, "a reboot that nobody asked for was none either")
	f.Kexec = false
	assert.Equal(t, step.Skipped, next(pending, f).State)
}
