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

// judged are the limits of a gate with a soak.
var judged = step.Limits{Read: time.Minute, Health: 10 * time.Minute, Boot: 30 * time.Minute, Soak: time.Minute, Isolation: 10 * time.Minute}

// spared is a record in which the card of the job was found at its target and not changed.
func spared(kind plan.Kind) step.Record {
	r := at(kind, running)
	for i, s := range r.Steps {
		if s.Device == "nic" && (s.Kind == plan.Flash || s.Kind == plan.Activate) {
			r.Steps[i].State, r.Steps[i].Attempt = step.Skipped, 0
		}
	}
	return r
}

// verifying is the record while the device is read back and the others have been.
func verifying(r step.Record, device string) step.Record {
	for i, s := range r.Steps {
		if s.Kind == plan.Verify {
			running(&r.Steps[i])
			if s.Device != device {
				r.Steps[i].State = step.Succeeded
			}
		}
	}
	return r
}

// A device that the job found at its target and did not change is not at fault, whatever it runs.
func TestBlamesOnlyWhatJobChanged(t *testing.T) {
	f := ready
	f.Devices = map[string]step.Device{"nic": {Running: "1"}, "disk": {Running: "1"}}
	for device, blames := range map[string][]string{"disk": {"disk"}, "nic": nil} {
		a := step.Next(verifying(spared(plan.Verify), device), f, judged)
		require.NotNil(t, a.Failure, a.Message)
		assert.Equal(t, step.VerifyFailed, a.Failure.Reason)
		assert.Equal(t, blames, a.Failure.Blames, device)
	}

	f.HealthKnown, f.Complaining, f.Waited = true, time.Hour, time.Hour
	f.Unhealthy = []step.Complaint{{Message: "the kubelet does not answer"}}
	assert.Equal(t, []string{"disk"}, step.Next(spared(plan.Health), f, judged).Failure.Blames, "no complaint names a device")
	f.Unhealthy = []step.Complaint{{Message: "no link", Device: "nic"}, {Message: "no drive", Device: "disk"}}
	assert.Equal(t, []string{"disk"}, step.Next(spared(plan.Health), f, judged).Failure.Blames)
}

// Health is believed once it has lasted, and a complaint as well; a boot that took too long is no health.
func TestAVerdictTakesItsTime(t *testing.T) {
	reboots := func(r step.Record) step.Record {
		for i := range r.Steps {
			if r.Steps[i].Kind == plan.Reboot {
				r.Steps[i].State = step.Succeeded
			}
		}
		return r
	}
	bad := []step.Complaint{{Message: "no link", Device: "nic"}}
	for name, c := range map[string]struct {
		facts  step.Facts
		verb   step.Verb
		reason step.Reason
	}{
		"the first clean look":               {step.Facts{HealthKnown: true}, step.Await, ""},
		"a clean minute":                     {step.Facts{HealthKnown: true, Clean: time.Minute}, step.Settle, ""},
		"a complaint that has just begun":    {step.Facts{HealthKnown: true, Unhealthy: bad, Complaining: time.Minute}, step.Await, ""},
		"one that lasts":                     {step.Facts{HealthKnown: true, Unhealthy: bad, Complaining: 10 * time.Minute}, step.Settle, step.Unhealthy},
		"one that comes and goes":            {step.Facts{HealthKnown: true, Unhealthy: bad, Waited: time.Hour}, step.Settle, step.Unhealthy},
		"nothing is known, for however long": {step.Facts{Waited: 1000 * time.Hour}, step.Await, ""},
		"a boot that took too long":          {step.Facts{HealthKnown: true, Clean: time.Hour, Boot: step.BootTime{System: 31 * time.Minute}}, step.Settle, step.Unhealthy},
		"a boot that took its time":          {step.Facts{HealthKnown: true, Clean: time.Hour, Boot: step.BootTime{System: 30 * time.Minute}}, step.Settle, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.facts.BootID, c.facts.Maintenance = "boot-1", step.MaintenanceReady
			a := step.Next(reboots(at(plan.Health, running)), c.facts, judged)
			assert.Equal(t, c.verb, a.Verb, a.Message)
			switch {
			case c.reason != "" && assert.NotNil(t, a.Failure):
				assert.Equal(t, c.reason, a.Failure.Reason)
			case c.verb == step.Settle:
				assert.Equal(t, step.Succeeded, a.State)
			}
		})
	}
}

// A host that cannot ask the API server gives its update up only when it could before, is itself worse because of what was
// changed, and stays so.
func TestAHostThatIsCutOffDecidesFromWhatItSees(t *testing.T) {
	of := func(device string, kind step.SubjectKind) []step.Complaint {
		return []step.Complaint{{Message: "no answer", Device: device, Subject: step.Subject{Kind: kind, Of: device}}}
	}
	for name, c := range map[string]struct {
		isolation step.Isolation
		unhealthy []step.Complaint
		gives     bool
		evidence  step.Evidence
	}{
		"nothing is worse, for however long":              {step.Isolation{Reached: true}, nil, false, ""},
		"what is worse is not what the job changed":       {step.Isolation{Reached: true, Lasted: time.Hour}, of("raid", step.DeviceSubject), false, ""},
		"it could not be asked before either":             {step.Isolation{Lasted: time.Hour}, of("nic", step.DeviceSubject), false, ""},
		"what the job changed is worse, not for long yet": {step.Isolation{Reached: true, Lasted: 9 * time.Minute}, of("nic", step.DeviceSubject), false, ""},
		"what the job changed is worse, and stays so":     {step.Isolation{Reached: true, Lasted: 10 * time.Minute}, of("nic", step.DeviceSubject), true, step.OfDevice},
		"only the network says so":                        {step.Isolation{Reached: true, Lasted: 10 * time.Minute}, of("nic", step.LinkSubject), true, step.Network},
	} {
		t.Run(name, func(t *testing.T) {
			c.isolation.Message = "connection refused"
			a := step.Next(at(plan.Health, running), step.Facts{
				BootID: "boot-1", Maintenance: step.MaintenanceUnknown, HealthKnown: true, Unhealthy: c.unhealthy, Isolation: &c.isolation, Waited: time.Hour,
			}, judged)
			if !c.gives {
				assert.Equal(t, step.Await, a.Verb, a.Message)
				assert.Contains(t, a.Message, "connection refused")
				return
			}
			require.NotNil(t, a.Failure, a.Message)
			assert.Equal(t, step.Unhealthy, a.Failure.Reason)
			assert.Equal(t, []string{"nic"}, a.Failure.Blames)
			assert.Equal(t, c.evidence, a.Failure.Evidence)
		})
	}
}

// A rollback is decided once nothing is written any more, and where it is not possible the node is held.
func TestARollbackWaitsForWritesAndHoldsWhatItCannotRestore(t *testing.T) {
	r := at(plan.Health, running)
	r.Failure = &step.Failure{Reason: step.Unhealthy, Blames: []string{"nic"}}
	for i := range r.Updates {
		r.Updates[i].From, r.Updates[i].Rollback, r.Updates[i].RollbackMessage = "1", inventory.RollbackReadBack, "no slot"
	}
	f := ready
	f.Devices = map[string]step.Device{"nic": {WriteRunning: true}}
	assert.Equal(t, step.Await, step.Next(r, f, judged).Verb)
	f.Devices = map[string]step.Device{"nic": {Running: "2", Stored: "2"}}
	a := step.Next(r, f, judged)
	require.Equal(t, step.RollBack, a.Verb)
	assert.Equal(t, []string{"nic"}, a.Devices)
	assert.Nil(t, a.Failure)

	for i := range r.Updates {
		r.Updates[i].Rollback = inventory.RollbackNone
	}
	a = step.Next(r, f, judged)
	require.Equal(t, step.RollBack, a.Verb)
	require.NotNil(t, a.Failure)
	assert.True(t, a.Failure.Held)
	assert.Equal(t, step.RollbackUnavailable, a.Failure.Reason)
	assert.Contains(t, a.Message, "no slot")
}
