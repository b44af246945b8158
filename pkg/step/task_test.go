package step_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// taskJob is a job that was asked for the steps on a node with a BIOS and a drive, whose driver brings scrub.
func taskJob(t require.TestingT, requests ...plan.Request) step.Record {
	return recordOf(t, plan.Catalog.Requested, requests)
}

// cleaningJob is taskJob for a job that cleans the node.
func cleaningJob(t require.TestingT, requests ...plan.Request) step.Record {
	return recordOf(t, plan.Catalog.Cleaning, requests)
}

func recordOf(t require.TestingT, list func(plan.Catalog, []plan.Request, []plan.Target) ([]plan.Step, error), requests []plan.Request) step.Record {
	c, err := plan.NewCatalog(nil, plan.Definition{Kind: "scrub", Interface: "sim", Changes: true})
	require.NoError(t, err)
	steps, err := list(c, requests, []plan.Target{{Device: "bios", Class: inventory.BIOS}, {Device: "disk", Class: inventory.Disk, Driver: "sim"}})
	require.NoError(t, err)
	return step.New(steps, step.Update{Device: "bios"}, step.Update{Device: "disk"})
}

// until settles every step before the first one of the kind.
func until(r step.Record, kind plan.Kind) step.Record {
	r = r.Clone()
	for i := range r.Steps {
		if r.Steps[i].Kind == kind {
			return r
		}
		r.Steps[i].State, r.Steps[i].Attempt, r.Steps[i].BootID = step.Succeeded, 1, "boot-1"
	}
	return r
}

// stored is the record as the journal gives it back.
func stored(t *testing.T, r step.Record) step.Record {
	t.Helper()
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var out step.Record
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

var ready = step.Facts{
	BootID: "boot-1", Maintenance: step.MaintenanceReady, HealthKnown: true,
	Devices: map[string]step.Device{"bios": {Running: "1"}, "disk": {Running: "1"}},
}

func next(r step.Record, f step.Facts) step.Action { return step.Next(r, f, step.DefaultLimits()) }

func apply(r step.Record, f step.Facts) step.Record {
	return step.Apply(r, next(r, f), f.BootID, time.Unix(0, 0))
}

func TestReadStepNeedsNoMaintenance(t *testing.T) {
	f := ready
	f.Maintenance = step.MaintenanceNotInstalled
	r := taskJob(t, plan.Request{Name: "verify-inventory"}, plan.Request{Name: "verify-firmware", Device: "disk"})
	for _, message := range []string{"all there", "as expected"} {
		begun := apply(r, f)
		require.Equal(t, step.Running, begun.Steps[begun.Current()].State)
		assert.Equal(t, step.Poll, next(begun, f).Verb, "while it runs it is asked again")
		r = apply(step.Report(begun, begun.Current(), step.Returned{Message: message}), f)
	}
	assert.Equal(t, "as expected", r.Steps[1].Message)
	assert.Equal(t, step.Complete, next(r, f).Outcome)

	failed := apply(taskJob(t, plan.Request{Name: "verify-inventory"}), f)
	failed = apply(step.Report(failed, 0, step.Returned{Failure: &step.Failure{Reason: step.StepFailed, Message: "a drive is missing"}}), f)
	assert.Equal(t, step.StepFailed, failed.Failure.Reason, "the reason is its own (R003-39)")
	assert.Equal(t, plan.VerifyInventory, failed.Failure.Step)
	assert.False(t, failed.Failure.Held, "the node was never touched")
	assert.Equal(t, step.Failed, next(failed, f).Outcome)
}

// R003-25, R003-26: a failed change leaves the node in maintenance with the step named, and never reboots it.
func TestFailedChangeHoldsTheNode(t *testing.T) {
	r := apply(until(taskJob(t, plan.Request{Name: "scrub"}, plan.Request{Name: "reset-bios-settings"}), "scrub"), ready)
	r = apply(step.Report(r, r.Current(), step.Returned{Failure: &step.Failure{Reason: step.StepFailed, Message: "the drive refused"}}), ready)
	assert.Equal(t, plan.Kind("scrub"), r.Failure.Step)
	assert.Equal(t, "disk", r.Failure.Device)
	assert.True(t, r.Failure.Held)
	assert.Empty(t, r.Failure.Blames, "no firmware is at fault, so that nothing is rolled back")
	r = apply(r, ready)
	assert.Equal(t, step.Failed, r.Outcome)
	for _, s := range r.Steps {
		if s.Kind == plan.Reboot || s.Kind == plan.ResetBIOSSettings {
			assert.Equal(t, step.Skipped, s.State)
			assert.Zero(t, s.Attempt)
		}
	}
	released := step.Release(r)
	assert.Equal(t, plan.Release, released.Steps[released.Current()].Kind, "until a person releases it (R003-27)")
}

func TestChangeNeedsTheMaintenance(t *testing.T) {
	r := until(taskJob(t, plan.Request{Name: "scrub"}), "scrub")
	f := ready
	f.Maintenance = step.MaintenanceUnknown
	assert.Equal(t, step.Await, next(r, f).Verb)
	f.Maintenance = step.MaintenanceEnding
	assert.Equal(t, step.MaintenanceLost, next(r, f).Failure.Reason)
	f = ready
	f.Devices = map[string]step.Device{"disk": {WriteRunning: true}}
	f.Waited = 1000 * time.Hour
	assert.Equal(t, step.Await, next(r, f).Verb, "a write that goes on is never killed, and takes its time (R003-46)")
}

// R003-48, R003-49, R003-55: what was kept is there after a reboot, and an interrupted step goes on from it.
func TestWhatAStepKeepsSurvives(t *testing.T) {
	r := until(taskJob(t, plan.Request{Name: "scrub"}), "scrub")
	i := r.Current()
	r = stored(t, apply(r, ready))
	assert.Equal(t, step.Running, r.Steps[i].State, "journalled before it runs")
	r = stored(t, step.Report(r, i, step.Returned{Data: []byte("half"), Again: true}))
	r = stored(t, apply(r, ready))
	assert.Equal(t, []byte("half"), r.Steps[i].Data)
	assert.Equal(t, int32(2), r.Steps[i].Attempt)
	assert.Nil(t, r.Steps[i].Returned)

	f := ready
	f.BootID, f.Interrupted = "boot-2", true
	r = stored(t, apply(r, f))
	assert.Equal(t, int32(3), r.Steps[i].Attempt, "the one step that was interrupted is repeated")
	assert.Equal(t, []byte("half"), r.Steps[i].Data)
	r = apply(step.Report(r, i, step.Returned{Message: "erased"}), ready)
	assert.Equal(t, step.Succeeded, r.Steps[i].State)
	assert.Equal(t, []byte("half"), r.Steps[i].Data, "what it did not replace stays")
}

// A step that is interrupted again and again is given up long before its rounds are used up: what ends the daemon or the host
// each time would do so for ever. The count outlives the process, a restart of the list and the rounds in between.
func TestStepThatIsInterruptedAgainAndAgainIsGivenUp(t *testing.T) {
	for name, request := range map[plan.Kind]plan.Request{"scrub": {Name: "scrub"}, plan.VerifyFirmware: {Name: "verify-firmware", Device: "disk"}} {
		t.Run(string(name), func(t *testing.T) {
			r := until(taskJob(t, request), name)
			i, f := r.Current(), ready
			f.Interrupted = true
			require.Equal(t, step.Begin, next(r, f).Verb, "the first time is no interruption")
			r = apply(r, f)
			for n := int32(1); n <= step.MaxInterruptions; n++ {
				require.Equal(t, step.Begin, next(r, f).Verb)
				r = stored(t, apply(r, f))
				assert.Equal(t, n, r.Steps[i].Interruptions)
				assert.Equal(t, n*2, r.Steps[i].Attempt, "attempts only grow")
				r = apply(stored(t, step.Report(r, i, step.Returned{Again: true})), ready)
				assert.Equal(t, n, r.Steps[i].Interruptions, "another round is no interruption")
			}
			end := next(r, f)
			require.NotNil(t, end.Failure)
			assert.Equal(t, step.AttemptsExhausted, end.Failure.Reason)
			assert.Equal(t, name == "scrub", end.Failure.Held, "a node is held where something was changed")
		})
	}
}

// A change that does its work in rounds is given up in the end, and attempts only grow.
func TestChangeIsNotBegunForEver(t *testing.T) {
	r := until(taskJob(t, plan.Request{Name: "scrub"}), "scrub")
	i := r.Current()
	for attempt := int32(1); attempt <= step.MaxTaskAttempts; attempt++ {
		require.Equal(t, step.Begin, next(r, ready).Verb)
		r = apply(r, ready)
		assert.Equal(t, attempt, r.Steps[i].Attempt)
		r = step.Report(r, i, step.Returned{Again: true})
	}
	end := next(r, ready)
	require.NotNil(t, end.Failure)
	assert.Equal(t, step.StepFailed, end.Failure.Reason)
	assert.True(t, end.Failure.Held)
}

// The job makes one reboot for all its steps, and none where no step asks for one.
func TestOneRebootForAllSteps(t *testing.T) {
	for name, asks := range map[string]bool{"asked for": true, "not asked for": false} {
		t.Run(name, func(t *testing.T) {
			r := until(taskJob(t, plan.Request{Name: "scrub"}, plan.Request{Name: "reset-bios-settings"}), "scrub")
			for range 2 {
				r = apply(r, ready)
				r = apply(step.Report(r, r.Current(), step.Returned{Reboot: asks}), ready)
			}
			require.Equal(t, plan.Reboot, r.Steps[r.Current()].Kind)
			a := next(r, ready)
			if !asks {
				assert.Equal(t, step.Skipped, a.State)
				return
			}
			require.Equal(t, step.Begin, a.Verb)
			r = step.Report(apply(r, ready), r.Current(), step.Returned{})
			assert.Equal(t, step.Await, next(r, ready).Verb)
			f := ready
			f.BootID = "boot-2"
			r = apply(r, f)
			assert.Equal(t, 1, r.Reboots())
			for r.Outcome == "" {
				if s := r.Steps[max(r.Current(), 0)]; s.Kind == plan.Release {
					f.Maintenance = step.MaintenanceNone
				}
				r = apply(r, f)
			}
			assert.Equal(t, step.Complete, r.Outcome)
		})
	}
}

// R003-43: a drive is told to erase itself only where a person is known not to have cancelled that and the node is known to be out of service; and who
// waits for a drive that does not answer can give it up, with its name.
func TestDriveIsToldOnlyWhereItIsKnownThatItMayBe(t *testing.T) {
	sampled := until(taskJob(t, plan.Request{Name: "erase", Device: "disk", Arguments: []plan.Argument{{Name: "serialNumber", Value: "S1"}}}), plan.Erase)
	i := sampled.Current()
	sampled = apply(sampled, ready)
	sampled = step.Report(sampled, i, step.Returned{Data: []byte("samples"), Again: true})
	told := apply(sampled, ready)
	for name, c := range map[string]struct {
		record step.Record
		facts  func(*step.Facts)
		verb   step.Verb
		says   string
	}{
		"known":                      {sampled, func(*step.Facts) {}, step.Begin, ""},
		"not asked":                  {sampled, func(f *step.Facts) { f.Unasked = true }, step.Await, "whether the job was cancelled meanwhile"},
		"not asked since a restart":  {sampled, func(f *step.Facts) { f.Unasked, f.Interrupted = true, true }, step.Await, "whether the job was cancelled meanwhile"},
		"maintenance unknown":        {sampled, func(f *step.Facts) { f.Maintenance = step.MaintenanceUnknown }, step.Await, "whether the node is still out of service"},
		"cancelled":                  {sampled, func(f *step.Facts) { f.Cancel = new("stop") }, step.Settle, "cancelled before the drive was told to erase itself: stop"},
		"told, and not known to be":  {told, func(*step.Facts) {}, step.Poll, ""},
		"told, and cancelled":        {told, func(f *step.Facts) { f.Cancel = new("stop") }, step.Poll, ""},
		"told, cancelled, by force":  {told, func(f *step.Facts) { f.Cancel, f.CancelForce = new("stop"), true }, step.Settle, "the drive may be erasing itself, which nothing stops, and is NOT proven erased"},
		"told, and without a window": {told, func(f *step.Facts) { f.Interrupted, f.Maintenance = true, step.MaintenanceNone }, step.Settle, "is NOT proven erased"},
	} {
		t.Run(name, func(t *testing.T) {
			f := ready
			c.facts(&f)
			a := next(c.record, f)
			assert.Equal(t, c.verb, a.Verb, "%+v", a)
			assert.Contains(t, a.Message, c.says)
		})
	}
}
