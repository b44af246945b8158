package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// cleaner runs the steps of a cleaning on a machine.
type cleaner struct {
	*enginetest.Machine
	// faulty says what is wrong with the machine, by the step that finds it.
	faulty map[string]string
	// takes is how long each step takes.
	takes time.Duration
	ran   []string
}

// Check implements engine.Tasks.
func (*cleaner) Check(context.Context, step.Step, journal.Update) *step.Failure { return nil }

// Run implements engine.Tasks.
func (c *cleaner) Run(_ context.Context, s step.Step, _ journal.RequestedStep, _ journal.Update) (*step.Returned, *engine.Underway) {
	assert.Equal(c.T, step.MaintenanceReady, c.Window.Phase, "%s in service", s.Kind)
	c.ran = append(c.ran, string(s.Kind))
	<-time.After(c.takes)
	if why := c.faulty[string(s.Kind)]; why != "" {
		return &step.Returned{Failure: &step.Failure{Reason: step.StepFailed, Step: s.Kind, Device: s.Device, Message: why}}, nil
	}
	return &step.Returned{Message: "as expected"}, nil
}

// cleaningJob is a job that cleans the machine, which has one drive with an image.
func cleaningJob(t *testing.T, name string, kinds ...string) journal.Job {
	t.Helper()
	c, err := plan.NewCatalog(nil, plan.Definition{Kind: "scrub", Interface: "sim", Changes: true})
	require.NoError(t, err)
	j := stepsJob(t, name, "sha256:1")
	j.Deadline, j.Requested = time.Now().Add(time.Hour), nil
	var requests []plan.Request
	for _, k := range kinds {
		j.Requested = append(j.Requested, journal.RequestedStep{Name: k})
		requests = append(requests, plan.Request{Name: k})
	}
	steps, err := c.Cleaning(requests, []plan.Target{{Device: "node-disk0", Class: inventory.Disk, Driver: "sim"}})
	require.NoError(t, err)
	j.Record = step.New(steps, step.Update{Device: "node-disk0"})
	return j
}

// inCleaner runs a test with a machine that knows the steps.
func inCleaner(t *testing.T, f func(t *testing.T, c *cleaner)) {
	t.Helper()
	inBubble(t, func(t *testing.T, m *enginetest.Machine) { f(t, newCleaner(m)) })
}

func newCleaner(m *enginetest.Machine) *cleaner {
	c := &cleaner{Machine: m, faulty: map[string]string{}, takes: time.Minute}
	m.Tasks = c
	m.Add(inventory.Disk, "disk0", inventory.ActivateNone)
	return c
}

// looks are steps that change nothing.
var looks = []string{"verify-inventory", "verify-firmware"}

// R003-1, R003-21: the steps run after the node has left service and before it is schedulable again, also where none of them changes
// anything and each takes hours, and the node is seen healthy before it returns.
func TestCleaningTakesTheNodeOutOfServiceAndReturnsIt(t *testing.T) {
	inCleaner(t, func(t *testing.T, c *cleaner) {
		c.takes = 5 * time.Hour
		view := c.Machine.Run(cleaningJob(t, "j", looks...))
		j := view.Job("uid-j")
		require.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
		assert.Equal(t, looks, c.ran)
		assert.True(t, j.Record.Verdict.Healthy)
		assert.Equal(t, 1, c.Window.Scheduled)
		assert.Equal(t, 1, c.Window.Released)
		assert.Zero(t, c.Sim.Count(drivertest.OpReboot, ""), "no step asked for one")
	})
}

// R003-24, R003-25: workload leaves whatever the steps find, and what fails holds the node with its error. The retry takes the node over in
// the same maintenance and returns it, a person releases it, and neither happens by itself.
func TestFailedCleaningHoldsTheNodeUntilARetryPassesOrAPersonReleasesIt(t *testing.T) {
	inCleaner(t, func(t *testing.T, c *cleaner) {
		c.faulty["verify-inventory"] = "a drive is missing"
		view := c.Machine.Run(cleaningJob(t, "a", looks...))
		a := requireFailed(t, view, "a", step.StepFailed, true)
		assert.Equal(t, "a drive is missing", a.Record.Failure.Message)
		assert.Equal(t, looks[:1], c.ran)
		assert.Equal(t, 1, c.Window.Scheduled)
		assert.Equal(t, step.MaintenanceReady, c.Window.Phase)

		delete(c.faulty, "verify-inventory")
		c.faulty["verify-firmware"] = "another version runs"
		view = c.Machine.Run(cleaningJob(t, "b", looks...))
		requireFailed(t, view, "b", step.StepFailed, true)
		assert.False(t, view.Job("uid-a").Held(), "the retry has the node")
		assert.Zero(t, c.Window.Released)

		clear(c.faulty)
		view = c.Machine.Run(cleaningJob(t, "c", looks...))
		require.Equal(t, step.Complete, view.Job("uid-c").Record.Outcome)
		assert.Nil(t, view.Held())
		assert.Equal(t, 1, c.Window.Scheduled, "one maintenance for all of them")
		assert.Equal(t, 1, c.Window.Released)

		c.faulty["verify-inventory"] = "a drive is missing"
		requireFailed(t, c.Machine.Run(cleaningJob(t, "d", looks...)), "d", step.StepFailed, true)
		j, err := journal.Open(c.Dir)
		require.NoError(t, err)
		require.NoError(t, c.NewEngine(j).Release("uid-d"))
		require.NoError(t, j.Close())
		assert.False(t, c.Machine.Run().Job("uid-d").Held())
		assert.Equal(t, 2, c.Window.Released)
	})
}

// A retry that cannot begin, or that is cancelled, leaves the node where it is.
func TestRetryOfACleaningThatDoesNotBeginKeepsTheNodeHeld(t *testing.T) {
	for name, prevent := range map[string]func(*cleaner, *journal.Job){
		"it is cancelled":         func(_ *cleaner, j *journal.Job) { j.Cancel = new("wrong night") },
		"its device is gone":      func(c *cleaner, _ *journal.Job) { c.IDs = nil },
		"it comes to it too late": func(_ *cleaner, j *journal.Job) { j.Deadline = time.Now().Add(-time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			inCleaner(t, func(t *testing.T, c *cleaner) {
				c.faulty["verify-inventory"] = "a drive is missing"
				requireFailed(t, c.Machine.Run(cleaningJob(t, "a", looks...)), "a", step.StepFailed, true)
				retry := cleaningJob(t, "b", looks...)
				prevent(c, &retry)
				view := c.Machine.Run(retry)
				require.Equal(t, step.Failed, view.Job("uid-b").Record.Outcome)
				require.NotNil(t, view.Held())
				assert.Equal(t, "b", view.Held().Name)
				assert.Len(t, c.ran, 1)
				assert.Zero(t, c.Window.Released)
			})
		})
	}
}

// A cleaning mends no update: the node that one of these left held stays so, whatever the steps say. Nor do a person's steps mend a cleaning.
func TestCleaningTakesOverNothingButACleaning(t *testing.T) {
	inCleaner(t, func(t *testing.T, c *cleaner) {
		c.Sim.Inject("disk0", drivertest.FailWrite)
		requireFailed(t, c.Machine.Run(c.Job("update", c.IDs...)), "update", step.WriteFailed, true)
		view := c.Machine.Run(cleaningJob(t, "j", looks...))
		require.Equal(t, step.Complete, view.Job("uid-j").Record.Outcome)
		assert.True(t, view.Job("uid-update").Held())
		assert.Zero(t, c.Window.Released)
	})
	inCleaner(t, func(t *testing.T, c *cleaner) {
		c.faulty["verify-inventory"] = "a drive is missing"
		requireFailed(t, c.Machine.Run(cleaningJob(t, "j", looks...)), "j", step.StepFailed, true)
		view := c.Machine.Run(stepsJob(t, "mine", ""))
		require.Equal(t, step.Complete, view.Job("uid-mine").Record.Outcome)
		assert.True(t, view.Job("uid-j").Held())
		assert.Zero(t, c.Window.Released)
	})
}

// A cleaning that did not come to its steps leaves the node in service, as any other job does.
func TestCleaningThatFailsBeforeItsStepsHoldsNothing(t *testing.T) {
	for reason, prevent := range map[step.Reason]func(*cleaner){
		step.HardwareChanged:        func(c *cleaner) { c.IDs = nil },
		step.UnhealthyBefore:        func(c *cleaner) { c.NodeReady = false },
		step.MaintenanceUnavailable: func(c *cleaner) { c.Window.NotInstalled = true },
	} {
		t.Run(string(reason), func(t *testing.T) {
			inCleaner(t, func(t *testing.T, c *cleaner) {
				prevent(c)
				requireFailed(t, c.Machine.Run(cleaningJob(t, "j", looks...)), "j", reason, false)
				assert.Empty(t, c.ran)
				assert.Zero(t, c.Window.Scheduled)
			})
		})
	}
}

// What somebody else does all the same is noticed: a step is not believed on a node that came back while it ran.
func TestCleaningOfANodeThatSomebodyTookBackFails(t *testing.T) {
	inCleaner(t, func(t *testing.T, c *cleaner) {
		go func() {
			<-time.After(time.Minute + c.takes/2)
			c.Window.Change(func() { c.Window.Phase = step.MaintenanceBroken })
		}()
		c.takes = time.Hour
		j := requireFailed(t, c.Machine.Run(cleaningJob(t, "j", "verify-inventory")), "j", step.MaintenanceLost, false)
		assert.Contains(t, j.Record.Failure.Message, "the maintenance was ended before the step verify-inventory")
		assert.Len(t, c.ran, 1)
	})
}

// Killed between any two steps, a cleaning comes to the same end: the node is returned once where all steps pass, and held in its one
// maintenance where one fails (R003-25, R003-48, R003-49).
func TestCleaningKilledAnywhereEndsTheSame(t *testing.T) {
	kinds := []string{"verify-inventory", "scrub", "verify-firmware"}
	for name, c := range map[string]struct {
		faulty string
		ran    []string
	}{
		"it passes":           {ran: kinds},
		"the first one fails": {faulty: kinds[0], ran: kinds[:1]},
		"the last one fails":  {faulty: kinds[2], ran: kinds},
	} {
		t.Run(name, func(t *testing.T) {
			killed := func(m *enginetest.Machine) (points, at *int) { return &m.Points, &m.CrashAt }
			interruptAnywhere(t, 5, killed, func(t *testing.T, m *enginetest.Machine, n int) {
				machine := newCleaner(m)
				machine.faulty[c.faulty] = "not as expected"
				view := runAgain(m, cleaningJob(t, "j", kinds...))
				released := 0
				if c.faulty == "" {
					released = 1
					require.Equal(t, step.Complete, view.Job("uid-j").Record.Outcome, "killed at %d", n)
				} else {
					j := requireFailed(t, view, "j", step.StepFailed, true)
					assert.Equal(t, c.faulty, string(j.Record.Failure.Step))
				}
				assert.Equal(t, released, m.Window.Released, "killed at %d", n)
				assert.Equal(t, 1, m.Window.Scheduled, "killed at %d", n)
				assert.Subset(t, c.ran, machine.ran)
				assert.LessOrEqual(t, len(machine.ran), len(c.ran)+1, "killed at %d: one step is repeated at most", n)
			})
		})
	}
}
