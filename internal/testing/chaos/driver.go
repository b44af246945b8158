package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

const driverName = "chaos"

// tools is the simulated driver with a boundary before each of its operations.
type tools struct {
	*drivertest.Simulated
	*world
}

// Check implements driver.Updater.
func (t tools) Check(ctx context.Context, id inventory.Identity, img driver.Image) error {
	t.point(opCheck, Before, id.UniqueID)
	if err := ctx.Err(); err != nil {
		return err
	}
	return t.Simulated.Check(ctx, id, img)
}

// Write implements driver.Updater.
func (t tools) Write(ctx context.Context, id inventory.Identity, img driver.Image, p driver.Progress) (inventory.Activation, error) {
	t.point(opWrite, Before, id.UniqueID)
	return t.Simulated.Write(ctx, id, img, p)
}

// Revert implements driver.Reverter.
func (t tools) Revert(ctx context.Context, id inventory.Identity, v inventory.Version) (inventory.Activation, error) {
	t.point(opRevert, Before, id.UniqueID)
	if d := t.device(id.UniqueID); !d.gone && !d.running() && t.keeps(d, v) { // whatever the device stores already
		t.note(Event{Kind: EventRevert, Device: id.UniqueID, Version: v, Archived: t.archived(d, opRevert)})
	}
	return t.Simulated.Revert(ctx, id, v)
}

// Parameters implements driver.Configurer.
func (t tools) Parameters(ctx context.Context, id inventory.Identity, names ...string) ([]inventory.Parameter, error) {
	t.point(opSettings, Before, id.UniqueID)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return t.Simulated.Parameters(ctx, id, names...)
}

// Configure implements driver.Configurer.
func (t tools) Configure(ctx context.Context, id inventory.Identity, c driver.Configuration) (inventory.Activation, error) {
	t.point(opConfigure, Before, id.UniqueID)
	return t.Simulated.Configure(ctx, id, c)
}

// Activate implements driver.Updater.
func (t tools) Activate(ctx context.Context, id inventory.Identity, kind inventory.Activation) (inventory.Activation, error) {
	t.point(opActivate, Before, id.UniqueID)
	return t.Simulated.Activate(ctx, id, kind)
}

// Archive implements driver.Archiver. It is in the middle when half of the image is in the file.
func (t tools) Archive(ctx context.Context, id inventory.Identity, path string) error {
	t.point(opArchive, Before, id.UniqueID)
	failed := func(err error) error { return fmt.Errorf("read image of %s: %w", id.UniqueID, err) }
	_, _, err := t.Inspect(ctx, id)
	if err := errors.Join(err, ctx.Err(), t.full()); err != nil {
		return failed(err)
	}
	if t.device(id.UniqueID).running() {
		return failed(command.ErrBusy)
	}
	content, _ := t.Running(id.UniqueID)
	if err := os.WriteFile(path, content[:len(content)/2], 0o600); err != nil {
		return err
	}
	t.advance(readTime)
	t.point(opArchive, Inside, id.UniqueID)
	switch kind, _ := t.takePending(); kind {
	case ToolFails:
		return failed(errTool)
	case ToolLies:
		return nil
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	t.point(opArchive, After, id.UniqueID)
	return nil
}
