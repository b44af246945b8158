package chaos

import (
	"context"
	"errors"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/erase"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/steps"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// scrub is a step of the simulated driver, which only jobs of type Steps run: it changes a device in several rounds.
const scrub plan.Kind = "scrub"

const scrubRounds = 3

// catalog holds the steps of the host.
func catalog() plan.Catalog {
	c, err := plan.NewCatalog(nil, plan.Definition{Kind: scrub, Interface: driverName, Changes: true})
	if err != nil {
		panic(err)
	}
	return c
}

// scrubbing turns a job into one that scrubs its devices.
func scrubbing(j journal.Job) journal.Job {
	var targets []plan.Target
	var touched []step.Update
	for _, u := range j.Updates {
		targets = append(targets, plan.Target{Device: u.Device, Class: u.Class, Driver: driverName})
		touched = append(touched, step.Update{Device: u.Device})
	}
	j.Requested = []journal.RequestedStep{{Name: string(scrub)}}
	steps, err := catalog().Requested([]plan.Request{{Name: string(scrub)}}, targets)
	if err != nil {
		panic(err)
	}
	j.Record = step.New(steps, touched...)
	return j
}

// tasks are the steps of jobs of type Steps.
type tasks struct {
	*world
	disks erase.Disks
	drv   driver.Driver
}

// Check implements engine.Tasks.
func (t tasks) Check(ctx context.Context, s step.Step, u journal.Update) *step.Failure {
	return t.product().Check(ctx, s, u)
}

// product are the steps of the product itself.
func (t tasks) product() steps.Tasks {
	return steps.Tasks{Machine: host{t.world}, Drivers: driver.Set{t.drv}, Eraser: t.eraser()}
}

// Run implements engine.Tasks.
func (t tasks) Run(ctx context.Context, s step.Step, r journal.RequestedStep, u journal.Update) (*step.Returned, *engine.Underway) {
	if s.Kind == plan.Erase {
		return t.product().Run(ctx, s, r, u)
	}
	t.point(opTask, Before, u.UniqueID)
	d := t.device(u.UniqueID)
	var err error
	switch {
	case d == nil || d.gone:
		err = errors.New("no such device")
	case d.running():
		err = command.ErrBusy
	default:
		if _, _, err = t.sim.Inspect(ctx, d.id); err != nil {
			break
		}
		t.note(Event{Kind: EventTask, Device: u.UniqueID})
		err = t.follow(ctx, d, opTask, nil, &operation{apply: func() {}})
	}
	switch rounds := len(s.Data) + 1; {
	case errors.Is(err, command.ErrStillRunning):
		return nil, nil
	case err != nil:
		return &step.Returned{Failure: &step.Failure{
			Reason: step.StepFailed, Step: s.Kind, Device: s.Device, Message: fmt.Sprintf("scrub %s: %v", s.Device, err),
		}}, nil
	case rounds < scrubRounds:
		return &step.Returned{Again: true, Data: make([]byte, rounds)}, nil
	}
	return &step.Returned{Message: "scrubbed"}, nil
}
