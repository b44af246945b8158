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

// judging is the record of a job that flashed its devices and stands before its health gate.
func judging(rollback inventory.Rollback) step.Record {
	r := at(plan.Health, nil)
	for i := range r.Updates {
		r.Updates[i].From, r.Updates[i].Rollback, r.Updates[i].RollbackMessage = "1", rollback, "it has one slot"
	}
	return r
}

// scene is what stays the same while a job is followed.
type scene struct {
	bootID string
	now    time.Time
	// begun are the steps that were begun, in order.
	begun []plan.Kind
}

// pass decides and journals once.
func (s *scene) pass(r step.Record, f step.Facts) (step.Record, step.Action) {
	f.BootID = s.bootID
	if f.Maintenance == step.MaintenanceUnknown {
		f.Maintenance = step.MaintenanceReady
	}
	if f.Devices == nil {
		f.Devices = map[string]step.Device{"nic": {Running: "2", Stored: "2"}, "disk": {Running: "2", Stored: "2"}}
	}
	a := step.Next(r, f, step.DefaultLimits())
	if a.Verb == step.Begin {
		s.begun = append(s.begun, r.Steps[a.Step].Kind)
	}
	return step.Apply(r, a, s.bootID, s.now), a
}

var linkDown = []step.Complaint{{Device: "nic", Message: "the link is down"}}

// TestGateRunsAfterAPowerLossThatLeftNoVerdict proves R002-46.
func TestGateRunsAfterAPowerLossThatLeftNoVerdict(t *testing.T) {
	s := &scene{bootID: "boot-2", now: time.Unix(100, 0)}
	for name, r := range map[string]step.Record{"before it began": judging(0), "in its middle": at(plan.Health, running)} {
		require.Nil(t, r.Verdict, name)
		r, a := s.pass(r, step.Facts{Interrupted: true, HealthKnown: true})
		require.Equal(t, step.Begin, a.Verb, "%s: it is not taken for passed", name)
		require.Nil(t, r.Verdict, name)
		r, a = s.pass(r, step.Facts{HealthKnown: true})
		require.Equal(t, step.Succeeded, a.State, name)
		assert.Equal(t, &step.Verdict{Healthy: true, BootID: "boot-2", Time: s.now}, r.Verdict, name)
	}
}

// TestSilenceDoesNotPassGate proves R002-17.
func TestSilenceDoesNotPassGate(t *testing.T) {
	s := &scene{bootID: "boot-1", now: time.Unix(100, 0)}
	r, _ := s.pass(judging(0), step.Facts{HealthKnown: true})
	for _, waited := range []time.Duration{0, time.Hour, 1000 * time.Hour} {
		after, a := s.pass(r, step.Facts{HealthKnown: false, Waited: waited})
		assert.Equal(t, step.Await, a.Verb, "nobody knows after %s", waited)
		assert.Nil(t, after.Verdict)
	}
}

// TestOnlyTheGateWritesVerdicts proves R002-19.
func TestOnlyTheGateWritesVerdicts(t *testing.T) {
	s := &scene{bootID: "boot-1", now: time.Unix(100, 0)}
	failure := &step.Failure{Reason: step.WriteFailed, Message: "exit code 1"}
	old := map[string]step.Device{"nic": {Running: "1", Stored: "1"}, "disk": {Running: "1", Stored: "1"}}
	for name, r := range map[string]step.Record{
		"a flash that failed":           at(plan.Flash, returned(step.Returned{Failure: failure})),
		"a flash that lied":             at(plan.Flash, returned(step.Returned{})),
		"an activation that failed":     needs(at(plan.Activate, returned(step.Returned{Failure: failure})), inventory.ActivateDeviceReset),
		"a verification that failed":    at(plan.Verify, running),
		"a reboot that was not refused": at(plan.Reboot, returned(step.Returned{})),
	} {
		r, a := s.pass(r, step.Facts{Devices: old, Waited: time.Hour, HealthKnown: true, Unhealthy: linkDown})
		require.Equal(t, step.StepFault, a.State, name)
		require.NotNil(t, r.Failure, name)
		assert.Nil(t, r.Verdict, name)
	}
}

// TestSameBootIDIsNoReboot proves R002-48.
func TestSameBootIDIsNoReboot(t *testing.T) {
	s := &scene{bootID: "boot-1", now: time.Unix(100, 0)}
	r := at(plan.Reboot, returned(step.Returned{}))
	staged := map[string]step.Device{
		"nic": {Running: "1", Stored: "2", Activation: inventory.ActivateReboot}, "disk": {Running: "1", Stored: "2", Activation: inventory.ActivateReboot},
	}
	for range 10 { // the pod restarts
		var a step.Action
		r, a = s.pass(r, step.Facts{Interrupted: true, HealthKnown: true, Devices: staged})
		require.Equal(t, step.Await, a.Verb, "the reboot that was asked for has not happened")
	}
	assert.Nil(t, r.Verdict)
	assert.Empty(t, s.begun, "nothing is flashed again, and nothing is judged")
	s.bootID = "boot-2"
	_, a := s.pass(r, step.Facts{Interrupted: true, Devices: staged})
	assert.Equal(t, step.Succeeded, a.State)
}

// TestUnhealthyHostWithoutAWayBackIsHeldAndLeftAlone proves R002-22, R002-27.
func TestUnhealthyHostWithoutAWayBackIsHeldAndLeftAlone(t *testing.T) {
	s := &scene{bootID: "boot-1", now: time.Unix(100, 0)}
	r, _ := s.pass(judging(inventory.RollbackNone), step.Facts{HealthKnown: true})
	r, a := s.pass(r, step.Facts{HealthKnown: true, Unhealthy: linkDown, Waited: time.Hour})
	require.Equal(t, step.StepFault, a.State)
	assert.False(t, r.Verdict.Healthy)
	s.begun = nil
	for range 10 {
		if r.Outcome != "" {
			break
		}
		r, _ = s.pass(r, step.Facts{HealthKnown: true, Unhealthy: linkDown, Waited: time.Hour})
	}
	require.Equal(t, step.Failed, r.Outcome)
	assert.True(t, r.NeedsIntervention())
	assert.True(t, r.Failure.Held, "it stays out of service")
	assert.Contains(t, r.Rollback.Failure.Message, "it has one slot")
	assert.Empty(t, s.begun, "no reboot, and nothing is written")
	assert.Equal(t, -1, r.Current(), "there is nothing left to do, for however long")
}

// A verdict is worthless under another boot: a host that rebooted after it was judged, and before it was returned to service,
// is judged again (R002-31, I4).
func TestHostThatRebootsBeforeItsReleaseIsJudgedAgain(t *testing.T) {
	r := at(plan.Health, running)
	healthy := step.Facts{BootID: "boot-1", HealthKnown: true, Maintenance: step.MaintenanceReady}
	now := time.Unix(0, 0)
	r = step.Apply(r, step.Next(r, healthy, step.DefaultLimits()), "boot-1", now)
	require.True(t, r.Verdict.Healthy)

	rebooted := healthy
	rebooted.BootID, rebooted.Interrupted, rebooted.Maintenance = "boot-2", true, step.MaintenanceReady
	again := step.Next(r, rebooted, step.DefaultLimits())
	require.Equal(t, step.RepeatGate, again.Verb)
	r = step.Apply(r, again, "boot-2", now)
	assert.Equal(t, plan.Health, r.Steps[r.Current()].Kind)
	r = step.Apply(r, step.Next(r, rebooted, step.DefaultLimits()), "boot-2", now) // begins
	rebooted.Interrupted = false
	r = step.Apply(r, step.Next(r, rebooted, step.DefaultLimits()), "boot-2", now)
	assert.Equal(t, "boot-2", r.Verdict.BootID)
	release := step.Next(r, rebooted, step.DefaultLimits())
	assert.Equal(t, step.Begin, release.Verb)
	assert.Equal(t, plan.Release, r.Steps[release.Step].Kind)
}

// A release that was asked for may have come through: while that cannot be found out the node is neither judged nor returned.
func TestReleaseThatMayHaveComeThroughIsNotJudgedAgainInTheDark(t *testing.T) {
	r := at(plan.Release, running)
	for i := range r.Steps {
		if r.Steps[i].Kind == plan.Health {
			r.Steps[i].State = step.Succeeded
		}
	}
	r.Verdict = &step.Verdict{Healthy: true, BootID: "boot-1"}
	facts := step.Facts{BootID: "boot-2", Interrupted: true}
	assert.Equal(t, step.Await, step.Next(r, facts, step.DefaultLimits()).Verb)
	facts.Maintenance = step.MaintenanceReady
	assert.Equal(t, step.RepeatGate, step.Next(r, facts, step.DefaultLimits()).Verb)
	facts.Maintenance = step.MaintenanceNone
	assert.Equal(t, step.Begin, step.Next(r, facts, step.DefaultLimits()).Verb)
}
