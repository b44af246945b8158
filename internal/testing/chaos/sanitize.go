package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/nodefirmware/node-firmware-operator/internal/node/erase"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	machines "github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// stores is how many bytes a drive stores that can erase itself.
const stores = 64 << 10

func serialOf(uniqueID string) string { return "serial-" + uniqueID }

// fill makes the drive one that stores data and can erase itself.
func (w *world) fill(s DeviceSpec) {
	w.sim.Erasable(s.ID, bytes.Repeat([]byte("a secret that nobody may read. \n"), stores/32), driver.EraseCrypto)
	for fault, is := range map[drivertest.Fault]bool{drivertest.LieErase: s.LiesErased, drivertest.FailErase: s.FailsErase} {
		if is {
			w.sim.Inject(s.ID, fault)
		}
	}
}

// holding lists the drives that still store something of what they stored at first.
func (w *world) holding() []string {
	var out []string
	for _, d := range w.devices {
		if d.spec.Stores && !d.gone && !d.bystander && w.sim.Holds(d.id.UniqueID) {
			out = append(out, nameOf(d.id.UniqueID))
		}
	}
	return out
}

// sanitizing turns a job into one that erases the drives for which a person consented.
func (w *world) sanitizing(j journal.Job) journal.Job {
	var requests []plan.Request
	var targets []plan.Target
	var touched []step.Update
	updates := j.Updates
	j.Updates = nil
	for i, s := range w.scenario.Devices {
		if !s.Consented {
			continue
		}
		name := nameOf(s.ID)
		requests = append(requests, plan.Request{
			Name: string(plan.Erase), Device: name, Arguments: []plan.Argument{{Name: plan.EraseSerialNumber, Value: serialOf(s.ID)}},
		})
		targets = append(targets, plan.Target{Device: name, Class: s.Class, Driver: driverName})
		touched = append(touched, step.Update{Device: name})
		j.Requested = append(j.Requested, journal.RequestedStep{Name: string(plan.Erase), Device: name})
		j.Updates = append(j.Updates, updates[i])
	}
	steps, err := catalog().Requested(requests, targets)
	if err != nil {
		panic(err)
	}
	j.Record = step.New(steps, touched...)
	return j
}

// eraser erases the drives of the host.
func (t tasks) eraser() erase.Eraser {
	return erase.Eraser{Disks: t.disks, Seed: func() uint64 { return 42 }, Now: t.wall}
}

// media are what the drives of the host store. Nothing uses them.
type media struct{ *world }

// Unused implements erase.Disks.
func (media) Unused(context.Context, inventory.Identity) error { return nil }

// Claim implements erase.Disks.
func (m media) Claim(ctx context.Context, id inventory.Identity) ([]machines.Volume, error) {
	return m.Volumes(ctx, id)
}

// Volumes implements erase.Disks.
func (m media) Volumes(_ context.Context, id inventory.Identity) ([]machines.Volume, error) {
	m.point(opSample, Before, id.UniqueID)
	m.advance(readTime)
	return []machines.Volume{{Name: "nvme0n1", ID: "1", Size: stores, ReaderAt: m.sim.Reader(id.UniqueID), Closer: io.NopCloser(nil)}}, nil
}

// Erasure implements driver.Eraser.
func (t tools) Erasure(ctx context.Context, id inventory.Identity) (driver.Erasure, error) {
	t.point(opErasure, Before, id.UniqueID)
	if err := ctx.Err(); err != nil {
		return driver.Erasure{}, err
	}
	return t.Simulated.Erasure(ctx, id)
}

// Erase implements driver.Eraser.
func (t tools) Erase(ctx context.Context, id inventory.Identity, method driver.EraseMethod) error {
	t.point(opErase, Before, id.UniqueID)
	d := t.device(id.UniqueID)
	if d == nil || d.gone {
		return fmt.Errorf("erase %s: no such device", id.UniqueID)
	}
	t.note(Event{Kind: EventErase, Device: id.UniqueID})
	if d.running() {
		return fmt.Errorf("%s %s: %w", opErase, id.UniqueID, command.ErrBusy)
	}
	var refused error
	err := t.follow(ctx, d, opErase, nil, &operation{apply: func() {
		if refused = t.Simulated.Erase(context.Background(), id, method); refused == nil {
			t.note(Event{Kind: EventErasing, Device: id.UniqueID})
		}
	}})
	if err != nil {
		return err
	}
	return refused
}
