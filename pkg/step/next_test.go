package step_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// What is said of a node that is ready is what its maintenance says, such as that there is none.
func TestNoneClaimsNothing(t *testing.T) {
	f := step.Facts{BootID: "boot-1", Maintenance: step.MaintenanceReady, MaintenanceMessage: "nothing takes it out of service"}
	a := step.Next(at(plan.Maintenance, func(s *step.Step) { s.State, s.Attempt, s.BootID = step.Running, 1, "boot-1" }), f, step.DefaultLimits())
	assert.Equal(t, step.Settle, a.Verb)
	assert.Equal(t, "nothing takes it out of service", a.Message)
}

// at is the record of a job for one NIC, and a disk, that has come to the given step.
func at(kind plan.Kind, change func(s *step.Step)) step.Record {
	targets := []plan.Target{{Device: "nic", Class: inventory.NIC}, {Device: "disk", Class: inventory.Disk}}
	r := step.New(plan.DefaultCatalog().Steps(targets), step.Update{Device: "nic", Version: "2"}, step.Update{Device: "disk", Version: "2"})
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Kind == kind {
			if change != nil {
				change(s)
			}
			return r
		}
		s.State, s.Attempt, s.BootID = step.Succeeded, 1, "boot-1"
	}
	return r
}

func running(s *step.Step) { s.State, s.Attempt, s.BootID = step.Running, 1, "boot-1" }

func runningTwice(s *step.Step) { s.State, s.Attempt, s.BootID = step.Running, 2, "boot-1" }

func returned(ret step.Returned) func(*step.Step) {
	return func(s *step.Step) { running(s); s.Returned = &ret }
}

func needs(r step.Record, a inventory.Activation) step.Record {
	for i := range r.Updates {
		r.Updates[i].Needs = a
	}
	return r
}

func TestNext(t *testing.T) {
	failure := &step.Failure{Reason: step.WriteFailed, Message: "exit code 1"}
	old := step.Device{Running: "1", Stored: "1", Activation: inventory.ActivateReboot}
	staged := step.Device{Running: "1", Stored: "2", Activation: inventory.ActivateReboot}
	busy := step.Device{WriteRunning: true}
	listed := step.Device{Running: "1", Slots: []inventory.Version{"1", "2", ""}}
	held := step.Device{Running: "1", Stored: "1", Hold: "it is a drive of md0, which is degraded"}
	heldStaged := step.Device{Running: "1", Stored: "2", Hold: "it is a drive of md0, which is degraded"}
	mute := step.Device{Running: "1"}
	const long = time.Hour
	for name, c := range map[string]struct {
		record step.Record
		device step.Device
		facts  step.Facts
		verb   step.Verb
		state  step.State
		reason step.Reason
	}{
		"an interrupted preflight begins again":         {at(plan.Preflight, running), old, step.Facts{Interrupted: true}, step.Begin, "", ""},
		"the maintenance is waited for":                 {at(plan.Maintenance, running), old, step.Facts{Maintenance: step.MaintenanceRequested}, step.Poll, "", ""},
		"an old image is flashed":                       {at(plan.Flash, nil), old, step.Facts{}, step.Begin, "", ""},
		"a staged image is not flashed":                 {at(plan.Flash, nil), staged, step.Facts{}, step.Settle, step.Skipped, ""},
		"no first write without knowing":                {at(plan.Flash, nil), old, step.Facts{Maintenance: step.MaintenanceUnknown}, step.Await, "", ""},
		"no write in a lost maintenance":                {at(plan.Flash, nil), old, step.Facts{Maintenance: step.MaintenanceEnding}, step.Settle, step.StepFault, step.MaintenanceLost},
		"a running write is waited for, always":         {at(plan.Flash, running), busy, step.Facts{Waited: 1000 * long}, step.Await, "", ""},
		"an interrupted write that took is done":        {at(plan.Flash, running), staged, step.Facts{Interrupted: true}, step.Settle, step.Succeeded, ""},
		"an interrupted write is repeated once":         {at(plan.Flash, running), old, step.Facts{Interrupted: true}, step.Begin, "", ""},
		"and not twice":                                 {at(plan.Flash, runningTwice), old, step.Facts{Interrupted: true}, step.Settle, step.StepFault, step.WriteFailed},
		"exit 0 and nothing changed is a lie":           {at(plan.Flash, returned(step.Returned{})), old, step.Facts{}, step.Settle, step.StepFault, step.VerifyFailed},
		"exit 1 and it is stored is a success":          {at(plan.Flash, returned(step.Returned{Failure: failure})), staged, step.Facts{}, step.Settle, step.Succeeded, ""},
		"exit 1 and nothing changed is a failure":       {at(plan.Flash, returned(step.Returned{Failure: failure})), old, step.Facts{}, step.Settle, step.StepFault, step.WriteFailed},
		"a device that does not report is trusted":      {at(plan.Flash, returned(step.Returned{Needs: inventory.ActivateReboot})), mute, step.Facts{}, step.Settle, step.Succeeded, ""},
		"but not when the image should run":             {at(plan.Flash, returned(step.Returned{})), mute, step.Facts{}, step.Settle, step.StepFault, step.VerifyFailed},
		"a device may be unreadable for a while":        {at(plan.Flash, nil), step.Device{Unreadable: "EIO"}, step.Facts{}, step.Await, "", ""},
		"but not for long":                              {at(plan.Flash, nil), step.Device{Unreadable: "EIO"}, step.Facts{Waited: long}, step.Settle, step.StepFault, step.ReadFailed},
		"a failed activation that took is a success":    {needs(at(plan.Activate, returned(step.Returned{Failure: failure})), inventory.ActivateDeviceReset), step.Device{Running: "2", Stored: "2"}, step.Facts{}, step.Settle, step.Succeeded, ""},
		"a device has time to come back from its reset": {needs(at(plan.Activate, returned(step.Returned{Failure: failure})), inventory.ActivateDeviceReset), step.Device{Unreadable: "EIO"}, step.Facts{}, step.Await, "", ""},
		"and fails when it does not":                    {needs(at(plan.Activate, returned(step.Returned{Failure: failure})), inventory.ActivateDeviceReset), step.Device{Missing: true}, step.Facts{Waited: long}, step.Settle, step.StepFault, step.ActivationFailed},
		"a power-cycle is for a person":                 {needs(at(plan.Activate, nil), inventory.ActivatePowerCycle), staged, step.Facts{}, step.Settle, step.StepFault, step.PowerCycleRequired},
		"nothing needs a reboot":                        {at(plan.Reboot, nil), step.Device{Running: "2", Stored: "2"}, step.Facts{}, step.Settle, step.Skipped, ""},
		"a staged image needs one":                      {needs(at(plan.Reboot, nil), inventory.ActivateReboot), staged, step.Facts{}, step.Begin, "", ""},
		"even if it claims to run under this boot":      {needs(at(plan.Reboot, nil), inventory.ActivateReboot), step.Device{Running: "2", Stored: "2"}, step.Facts{}, step.Begin, "", ""},
		"one that happened by itself will do":           {needs(at(plan.Reboot, nil), inventory.ActivateReboot), step.Device{Running: "2", Stored: "2"}, step.Facts{BootID: "boot-2"}, step.Settle, step.Skipped, ""},
		"no reboot under a running write":               {needs(at(plan.Reboot, nil), inventory.ActivateReboot), busy, step.Facts{}, step.Await, "", ""},
		"a requested reboot is waited for":              {at(plan.Reboot, returned(step.Returned{})), old, step.Facts{Interrupted: true}, step.Await, "", ""},
		"a new boot id is a reboot":                     {at(plan.Reboot, returned(step.Returned{})), old, step.Facts{BootID: "boot-2"}, step.Settle, step.Succeeded, ""},
		"an ignored reboot fails":                       {at(plan.Reboot, returned(step.Returned{})), old, step.Facts{Waited: long}, step.Settle, step.StepFault, step.RebootFailed},
		"a request that may not have been made":         {at(plan.Reboot, running), old, step.Facts{Interrupted: true}, step.Begin, "", ""},
		"a drive that keeps it needs its power removed": {needs(at(plan.Verify, running), inventory.ActivateReboot), staged, step.Facts{BootID: "boot-2"}, step.Settle, step.StepFault, step.PowerCycleRequired},
		"also one that only lists it in a slot":         {needs(at(plan.Verify, running), inventory.ActivateReboot), listed, step.Facts{BootID: "boot-2"}, step.Settle, step.StepFault, step.PowerCycleRequired},
		"not one that dropped it at its boot":           {needs(at(plan.Verify, running), inventory.ActivateReboot), old, step.Facts{BootID: "boot-2"}, step.Settle, step.StepFault, step.VerifyFailed},
		"nor one that says nothing":                     {needs(at(plan.Verify, running), inventory.ActivateReboot), mute, step.Facts{BootID: "boot-2"}, step.Settle, step.StepFault, step.VerifyFailed},
		"nor before the reboot":                         {needs(at(plan.Verify, running), inventory.ActivateReboot), staged, step.Facts{}, step.Settle, step.StepFault, step.VerifyFailed},
		"a drive of a degraded array is not written":    {at(plan.Flash, nil), held, step.Facts{}, step.Await, "", ""},
		"nor written once more":                         {at(plan.Flash, running), held, step.Facts{Interrupted: true}, step.Await, "", ""},
		"nor reset":                                     {needs(at(plan.Activate, nil), inventory.ActivateDeviceReset), heldStaged, step.Facts{}, step.Await, "", ""},
		"nor reset once more":                           {needs(at(plan.Activate, running), inventory.ActivateDeviceReset), heldStaged, step.Facts{Interrupted: true}, step.Await, "", ""},
		"but a reboot is none of its business":          {needs(at(plan.Activate, nil), inventory.ActivateReboot), heldStaged, step.Facts{}, step.Settle, step.Skipped, ""},
		"the target must run":                           {at(plan.Verify, running), staged, step.Facts{}, step.Settle, step.StepFault, step.VerifyFailed},
		"health has its time":                           {at(plan.Health, running), old, step.Facts{HealthKnown: true, Unhealthy: []step.Complaint{{Message: "link"}}}, step.Await, "", ""},
		"but not for ever":                              {at(plan.Health, running), old, step.Facts{HealthKnown: true, Unhealthy: []step.Complaint{{Message: "link"}}, Waited: long}, step.Settle, step.StepFault, step.Unhealthy},
		"unknown health never passes":                   {at(plan.Health, running), old, step.Facts{Waited: 1000 * long}, step.Await, "", ""},
		"the end of the maintenance is waited for":      {at(plan.Release, running), old, step.Facts{Maintenance: step.MaintenanceEnding}, step.Poll, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.facts
			f.Devices = map[string]step.Device{"nic": c.device, "disk": c.device}
			if f.BootID == "" {
				f.BootID = "boot-1"
			}
			if f.Maintenance == step.MaintenanceUnknown && name != "no first write without knowing" {
				f.Maintenance = step.MaintenanceReady
			}
			a := step.Next(c.record, f, step.DefaultLimits())
			assert.Equal(t, c.verb, a.Verb, a.Message)
			assert.Equal(t, c.state, a.State, a.Message)
			if c.reason != "" && assert.NotNil(t, a.Failure) {
				assert.Equal(t, c.reason, a.Failure.Reason, a.Message)
			}
		})
	}
}

func TestReadsAllBackIfOneFails(t *testing.T) {
	r := at(plan.Verify, running)
	facts := step.Facts{BootID: "boot-1", Devices: map[string]step.Device{"nic": {Running: "1"}, "disk": {Running: "2"}}}
	now := time.Unix(0, 0)
	a := step.Next(r, facts, step.DefaultLimits())
	r = step.Apply(r, a, "boot-1", now)
	assert.Equal(t, step.VerifyFailed, r.Failure.Reason)
	assert.Equal(t, []string{"disk"}, step.Wanted(r))
	r = step.Apply(r, step.Next(r, facts, step.DefaultLimits()), "boot-1", now)
	r = step.Apply(r, step.Next(r, facts, step.DefaultLimits()), "boot-1", now)
	assert.Equal(t, []string{"nic"}, r.Failure.Blames)
	stuck := step.Next(r, facts, step.DefaultLimits())
	assert.Equal(t, step.RollBack, stuck.Verb)
	assert.Equal(t, step.RollbackUnavailable, stuck.Failure.Reason, "nothing says what ran before")
	r = step.Apply(r, stuck, "boot-1", now)
	assert.True(t, r.NeedsIntervention())
	end := step.Next(r, facts, step.DefaultLimits())
	assert.Equal(t, step.Finish, end.Verb)
	assert.Equal(t, step.Failed, end.Outcome)
	assert.True(t, r.Failure.Held)
}

// While a node is drained, which may take hours, and while it reboots, nobody asks its devices anything.
func TestDevicesAreReadOnlyWhereTheyAreDecidedFrom(t *testing.T) {
	for _, kind := range []plan.Kind{plan.Maintenance, plan.Reboot} {
		assert.Equal(t, []string{"nic", "disk"}, step.Wanted(at(kind, nil)), kind)
		assert.Empty(t, step.Wanted(at(kind, running)), kind)
	}
	assert.Equal(t, []string{"nic"}, step.Wanted(at(plan.Flash, running)))
}

func TestUnjudgedHealthSaysWhy(t *testing.T) {
	a := step.Next(at(plan.Health, running), step.Facts{BootID: "boot-1", HealthMessage: "list devices of class NIC: EIO"}, step.DefaultLimits())
	assert.Equal(t, step.Await, a.Verb)
	assert.Contains(t, a.Message, "class NIC: EIO")
}
