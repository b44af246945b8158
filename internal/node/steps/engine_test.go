package steps_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/steps"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// host is a bench whose jobs run through the real engine and journal, over reboots that end the process.
type host struct {
	*bench
	machine *simhost.Machine
	boots   int
	stop    context.CancelFunc
	state   string
	window  enginetest.Window
}

func newHost(t *testing.T) *host {
	b := newBench(t)
	m, err := simhost.Create(filepath.Join(t.TempDir(), "m"), simhost.DefaultSpec("m", 0))
	require.NoError(t, err)
	b.tasks.Root = m.Dir()
	return &host{bench: b, machine: m, state: t.TempDir()}
}

// Reboot reboots the machine and ends the process, which asked for it.
// CanReboot implements engine.Rebooter.
func (h *host) CanReboot(context.Context) error { return nil }

func (h *host) Reboot(context.Context) error {
	h.boots++
	h.sim.Reboot()
	h.stop()
	return h.machine.Boot()
}

func (h *host) WriteRunning(string) (bool, error) { return false, nil }

// execute runs a job that asks for the steps to its end.
func (h *host) execute(priorities map[string]int32, requested ...journal.RequestedStep) journal.Job {
	return h.executeAs(plan.Catalog.Requested, priorities, requested)
}

// clean runs a job that cleans the host by the steps to its end.
func (h *host) clean(requested ...journal.RequestedStep) journal.Job {
	return h.executeAs(plan.Catalog.Cleaning, nil, requested)
}

func (h *host) executeAs(stepsOf func(plan.Catalog, []plan.Request, []plan.Target) ([]plan.Step, error), priorities map[string]int32, requested []journal.RequestedStep) journal.Job {
	catalog, err := steps.NewCatalog(h.tasks.Drivers, priorities)
	require.NoError(h, err)
	j := journal.Job{Name: "j", UID: "uid-j", Accepted: time.Now(), Requested: requested}
	var devices []plan.Target
	var touched []step.Update
	for _, id := range h.ids {
		devices = append(devices, plan.Target{Device: id.UniqueID, Class: id.Class, Driver: h.drv.Name()})
		touched = append(touched, step.Update{Device: id.UniqueID})
		j.Updates = append(j.Updates, update(id, ""))
	}
	var wanted []plan.Request
	for _, s := range requested {
		wanted = append(wanted, plan.Request{Name: s.Name, Device: s.Device})
	}
	list, err := stepsOf(catalog, wanted, devices)
	require.NoError(h, err)
	j.Record = step.New(list, touched...)
	for range 10 {
		if j = h.live(j); j.Record.Outcome != "" {
			return j
		}
	}
	h.Fatal("the job does not end")
	return j
}

// live is one life of the process.
func (h *host) live(j journal.Job) journal.Job {
	book, err := journal.Open(h.state)
	require.NoError(h, err)
	defer func() { require.NoError(h, book.Close()) }()
	ctx, stop := context.WithCancel(h.Context())
	defer stop()
	h.stop = stop
	engine := engine.New(engine.Config{
		Journal: book, Host: h, Drivers: h.tasks.Drivers, Maintenance: &h.window, Writes: h, Rebooter: h,
		Health: health.Checker{Scanner: h}, Tasks: h.tasks, BootID: func() (string, error) { return fmt.Sprint("boot-", h.boots), nil },
		Poll: time.Millisecond,
	})
	_, err = engine.Execute(ctx, j)
	if ctx.Err() == nil {
		require.NoError(h, err)
	}
	view, err := book.View()
	require.NoError(h, err)
	return *view.Job(j.UID)
}

func disks(n int) []journal.Expectation {
	return []journal.Expectation{{Selector: journal.Selector{Class: inventory.Disk, Vendor: "144d"}, Count: n}}
}

// R003-16, R003-23, R003-55: a job of steps of this product and of a driver runs through the real engine, in the given
// order, keeps what the driver wants kept, and makes one reboot for all that need it.
func TestStepsRunThroughTheEngine(t *testing.T) {
	h := newHost(t)
	bios := inventory.Identity{Class: inventory.BIOS, UniqueID: "bios0"}
	for _, id := range []inventory.Identity{bios, disk, nic0} {
		h.add(id, inventory.Firmware{Running: "1.0"})
	}
	h.sim.Offer(drivertest.Step{Step: driver.Step{Name: "scrub", Changes: true}, Calls: 3, Reboot: true})
	require.NoError(t, h.machine.SetBIOSSetting("SecureBoot", "Disabled"))

	done := h.execute(nil,
		journal.RequestedStep{Name: "verify-inventory", Expected: disks(1)},
		journal.RequestedStep{Name: "reset-bios-settings"},
		journal.RequestedStep{Name: "scrub", Device: "disk0"},
		journal.RequestedStep{Name: "verify-firmware"})
	require.Equal(t, step.Complete, done.Record.Outcome, "%+v", done.Record.Failure)
	var order []string
	for _, s := range done.Record.Steps {
		assert.Equal(t, step.Succeeded, s.State, "%s %s", s.Kind, s.Message)
		order = append(order, string(s.Kind)+" "+s.Device)
	}
	assert.Equal(t, []string{
		"preflight ", "verify-inventory ", "maintenance ", "reset-bios-settings bios0", "scrub disk0",
		"verify-firmware bios0", "verify-firmware nic0", "verify-firmware disk0", "reboot ", "health ", "release ",
	}, order)
	assert.Equal(t, int32(3), done.Record.Steps[4].Attempt)
	assert.Equal(t, "3 of 3 done", done.Record.Steps[4].Message)
	assert.Equal(t, 3, h.sim.Count(drivertest.OpStep, "disk0"))
	assert.Zero(t, h.sim.Count(drivertest.OpStep, "nic0"), "only on the device that was named")
	assert.Equal(t, 1, h.boots)
	settings, err := h.machine.BIOSSettings()
	require.NoError(t, err)
	assert.Equal(t, "Enabled", settings["SecureBoot"])
}

// A machine that is not as expected is not disturbed.
func TestFailedLookChangesNothing(t *testing.T) {
	h := newHost(t)
	h.add(disk, inventory.Firmware{Running: "1.0"})
	h.sim.Offer(drivertest.Step{Step: driver.Step{Name: "scrub", Changes: true}})
	done := h.execute(nil,
		journal.RequestedStep{Name: "verify-inventory", Expected: disks(2)},
		journal.RequestedStep{Name: "scrub"})
	require.Equal(t, step.Failed, done.Record.Outcome)
	assert.Equal(t, step.StepFailed, done.Record.Failure.Reason)
	assert.Equal(t, plan.VerifyInventory, done.Record.Failure.Step)
	assert.False(t, done.Record.Failure.Held)
	assert.Empty(t, h.sim.Operations())
	assert.Zero(t, h.boots)
}

// The steps of this product find what is wrong with a machine only once it is out of service, and it returns only where they find nothing:
// R003-1, R003-21, R003-24, R003-25.
func TestCleaningJudgesTheMachineOutOfService(t *testing.T) {
	for name, c := range map[string]struct {
		has    int
		held   bool
		phase  step.Maintenance
		states []step.State
	}{
		"as expected": {has: 1, phase: step.MaintenanceNone, states: []step.State{
			step.Succeeded, step.Succeeded, step.Succeeded, step.Succeeded, step.Skipped, step.Succeeded, step.Succeeded,
		}},
		"a drive is missing": {has: 2, held: true, phase: step.MaintenanceReady, states: []step.State{
			step.Succeeded, step.Succeeded, step.StepFault, step.Skipped, step.Skipped, step.Skipped, step.Pending,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.add(disk, inventory.Firmware{Running: "1.0"})
			done := h.clean(journal.RequestedStep{Name: "verify-inventory", Expected: disks(c.has)}, journal.RequestedStep{Name: "verify-firmware"})
			var states []step.State
			for _, s := range done.Record.Steps {
				states = append(states, s.State)
			}
			assert.Equal(t, c.states, states)
			assert.Equal(t, c.held, done.Held())
			assert.Equal(t, c.phase, h.window.Phase)
			assert.Equal(t, 1, h.window.Scheduled)
			assert.Zero(t, h.boots)
			if c.held {
				assert.Equal(t, step.StepFailed, done.Record.Failure.Reason)
				assert.Contains(t, done.Record.Failure.Message, "2 expected")
			}
		})
	}
}
