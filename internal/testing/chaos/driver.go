package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

const driverName = "chaos"

// tools is the driver of the simulated devices.
type tools struct {
	*world
	version int
}

var (
	_ driver.Driver   = tools{}
	_ driver.Archiver = tools{}
	_ driver.Reverter = tools{}
)

// Name implements driver.Driver.
func (tools) Name() string { return driverName }

// Version implements driver.Driver.
func (t tools) Version() string { return strconv.Itoa(t.version) }

// Support implements driver.Driver.
func (tools) Support(inventory.Identity) driver.Support { return driver.SupportVendor }

// Inspect implements driver.Driver.
func (t tools) Inspect(_ context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	d, err := t.find(id)
	if err != nil {
		return id, inventory.Firmware{}, err
	}
	read := d.read(t.now)
	if read.Err != nil {
		return id, inventory.Firmware{}, read.Err
	}
	return read.Identity, *read.Firmware, nil
}

func (t tools) find(id inventory.Identity) (*device, error) {
	d := t.device(id.UniqueID)
	if d == nil || d.gone {
		return nil, fmt.Errorf("open %s: no such device", id.UniqueID)
	}
	return d, nil
}

// Check implements driver.Updater.
func (t tools) Check(ctx context.Context, id inventory.Identity, img driver.Image) error {
	t.point(opCheck, Before, id.UniqueID)
	if err := errors.Join(ctx.Err(), img.Verify()); err != nil {
		return err
	}
	_, err := t.open(id, img)
	return err
}

// open reads an image for the device.
func (t tools) open(id inventory.Identity, img driver.Image) (firmware, error) {
	raw, err := os.ReadFile(img.Path)
	if err != nil {
		return firmware{}, fmt.Errorf("read image: %w", err)
	}
	board, fw, err := parseFirmware(string(raw))
	switch {
	case err != nil:
		return firmware{}, driver.Rejectf("%v", err)
	case board != id.BoardID:
		return firmware{}, driver.Rejectf("it is for the board %s", board)
	case fw.version != img.Version:
		return firmware{}, driver.Rejectf("it is version %s", fw.version)
	}
	return fw, nil
}

// Write implements driver.Updater.
func (t tools) Write(
	ctx context.Context, id inventory.Identity, img driver.Image, p driver.Progress,
) (inventory.Activation, error) {
	t.point(opWrite, Before, id.UniqueID)
	fw, err := t.open(id, img)
	if err != nil {
		return 0, err
	}
	d, err := t.find(id)
	switch {
	case err != nil:
		return 0, err
	case !d.running() && d.answers(t.now) != nil:
		return 0, d.answers(t.now)
	case !d.running() && !d.spec.Quiet && d.stored.content == fw.content:
		return t.needs(d), nil
	}
	t.note(Event{
		Kind: EventWrite, Device: id.UniqueID, Version: fw.version, Digest: fw.digest(), Archived: t.archived(d, opWrite),
	})
	if d.running() {
		return 0, fmt.Errorf("write %s: %w", id.UniqueID, command.ErrBusy)
	}
	err = t.follow(ctx, d, opWrite, p, &operation{writes: true, apply: func() { d.store(fw) }})
	if err != nil {
		return 0, err
	}
	return t.needs(d), nil
}

// needs is what the stored firmware of the device needs before it runs. After a tool that lied it is what the write it
// claimed would need.
func (t tools) needs(d *device) inventory.Activation {
	if !d.spec.Quiet && d.stored.content == d.run.content {
		return inventory.ActivateNone
	}
	return d.kind
}

// Revert implements driver.Reverter.
func (t tools) Revert(ctx context.Context, id inventory.Identity, v inventory.Version) (inventory.Activation, error) {
	t.point(opRevert, Before, id.UniqueID)
	d, err := t.find(id)
	if err != nil {
		return 0, err
	}
	if d.running() {
		return 0, fmt.Errorf("revert %s: %w", id.UniqueID, command.ErrBusy)
	}
	fw, ok := d.slot(v)
	if !ok {
		return 0, fmt.Errorf("revert %s to %s: %w", id.UniqueID, v, driver.ErrNotSupported)
	}
	t.note(Event{Kind: EventRevert, Device: id.UniqueID, Version: v, Digest: fw.digest(), Archived: t.archived(d, opRevert)})
	err = t.follow(ctx, d, opRevert, nil, &operation{apply: func() { d.commit(fw) }})
	if err != nil {
		return 0, err
	}
	return t.needs(d), nil
}

// Activate implements driver.Updater.
func (t tools) Activate(ctx context.Context, id inventory.Identity, kind inventory.Activation) (inventory.Activation, error) {
	t.point(opActivate, Before, id.UniqueID)
	d, err := t.find(id)
	switch {
	case err != nil:
		return 0, err
	case kind != inventory.ActivateDeviceReset:
		return 0, fmt.Errorf("activate %s by %s: %w", id.UniqueID, kind, driver.ErrNotSupported)
	case d.running():
		return 0, fmt.Errorf("activate %s: %w", id.UniqueID, command.ErrBusy)
	case d.spec.NeedsMore:
		d.kind = inventory.ActivateReboot
		return inventory.ActivateReboot, nil
	}
	t.note(Event{Kind: EventActivate, Device: id.UniqueID, Version: d.stored.says()})
	return inventory.ActivateNone, t.follow(ctx, d, opActivate, nil, &operation{apply: d.activate})
}

var errTool = errors.New("exit code 1")

// follow runs a tool that changes a device, to its end or until the daemon stops following it.
func (t tools) follow(ctx context.Context, d *device, op string, p driver.Progress, o *operation) error {
	d.op = o
	for percent := 0; percent <= 100; percent += 50 {
		if p != nil {
			p(percent)
		}
		t.advance(chunkTime)
		t.point(op, Inside, d.id.UniqueID)
		if d.op == nil {
			return fmt.Errorf("%s %s: no such device any more", op, d.id.UniqueID)
		}
		if t.stopping {
			<-ctx.Done()
			t.leaveWrites()
			return fmt.Errorf("%s %s: %w", op, d.id.UniqueID, command.ErrStillRunning)
		}
		if kind, arg := t.takePending(); kind != "" {
			return t.misbehave(d, op, kind, arg)
		}
	}
	t.finish(d)
	t.point(op, After, d.id.UniqueID)
	return nil
}

// misbehave ends a tool with the pending fault.
func (t tools) misbehave(d *device, op string, kind Kind, arg int) error {
	switch kind {
	case ToolHangs:
		d.op.orphan, d.op.ends = true, t.disturbed(30*chunkTime)
		return fmt.Errorf("%s %s: %w", op, d.id.UniqueID, command.ErrStillRunning)
	case KillWorker:
		t.tear(d, arg)
		return fmt.Errorf("%s %s: signal: killed", op, d.id.UniqueID)
	case ToolFailsLate:
		t.finish(d)
		return fmt.Errorf("%s %s: %w", op, d.id.UniqueID, errTool)
	case ToolLies:
		d.op = nil
		return nil
	default:
		d.op = nil
		return fmt.Errorf("%s %s: %w", op, d.id.UniqueID, errTool)
	}
}

// Archive implements driver.Archiver.
func (t tools) Archive(ctx context.Context, id inventory.Identity, path string) error {
	t.point(opArchive, Before, id.UniqueID)
	d, err := t.find(id)
	if err == nil {
		err = errors.Join(ctx.Err(), d.answers(t.now), t.full())
	}
	if err != nil {
		return fmt.Errorf("read image of %s: %w", id.UniqueID, err)
	}
	if d.running() {
		return fmt.Errorf("read image of %s: %w", id.UniqueID, command.ErrBusy)
	}
	content := d.run.content
	if err := os.WriteFile(path, []byte(content[:len(content)/2]), 0o600); err != nil {
		return err
	}
	t.advance(readTime)
	t.point(opArchive, Inside, id.UniqueID)
	switch kind, _ := t.takePending(); kind {
	case ToolFails:
		return fmt.Errorf("read image of %s: %w", id.UniqueID, errTool)
	case ToolLies:
		return nil
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return err
	}
	t.point(opArchive, After, id.UniqueID)
	return nil
}
