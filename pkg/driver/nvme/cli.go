package nvme

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
)

// cli is the transport through nvme-cli 2.x.
type cli struct{ runner command.Runner }

func (t cli) usable() error { return command.Installed(t.runner, tool) }

func (t cli) read(ctx context.Context, node string) (controller, slotLog, error) {
	device := "/dev/" + node
	c, err := ask(ctx, t.runner, cliIdentify(device), parseController)
	if err != nil {
		return controller{}, slotLog{}, fmt.Errorf("identify %s: %w", device, err)
	}
	l, err := ask(ctx, t.runner, cliSlotLog(device), parseSlotLog)
	if err != nil && (c.Downloadable || !errors.As(err, new(*admin.StatusError))) {
		return controller{}, slotLog{}, fmt.Errorf("read firmware slots of %s: %w", device, err)
	}
	return c, l, nil
}

func ask[T any](ctx context.Context, runner command.Runner, c command.Command, parse func([]byte) (T, error)) (T, error) {
	var none T
	r, err := runner.Run(ctx, c)
	if err != nil {
		return none, err
	}
	if r.ExitCode != 0 {
		err := errors.New("query failed")
		if status, found := parseStatus(string(r.Stderr)); found {
			err = &admin.StatusError{Operation: "query", Status: status}
		}
		return none, command.Failed(c, r, err)
	}
	v, err := parse(r.Stdout)
	if err != nil {
		return none, command.Failed(c, r, err)
	}
	return v, nil
}

func (t cli) download(ctx context.Context, to target, img driver.Image, slot int, progress driver.Progress) (answer, error) {
	c := img.HeldFor(cliDownload(to.path(), img.Path, to.lock, to.controller.UpdateGranularityKB<<10, progress))
	if err := t.transfer(ctx, c); err != nil {
		return answer{}, fmt.Errorf("download firmware to %s: %w", to.path(), err)
	}
	return t.commit(ctx, to, slot, admin.ReplaceAtReset)
}

func (t cli) transfer(ctx context.Context, c command.Command) error {
	r, err := t.runner.Run(ctx, c)
	if err != nil || r.ExitCode == 0 {
		return err
	}
	if status, found := parseStatus(string(r.Stderr)); found {
		return answer{status, c, r}.refusal()
	}
	return command.Failed(c, r, errors.New("the drive did not take the image"))
}

func (t cli) commit(ctx context.Context, to target, slot int, action admin.Action) (answer, error) {
	c := cliCommit(to.path(), to.lock, slot, action)
	r, err := t.runner.Run(ctx, c)
	if err != nil {
		return answer{}, err
	}
	status, err := parseCommit(c, r)
	return answer{status, c, r}, err
}

func (t cli) reset(ctx context.Context, to target) error {
	c := cliReset(to.path(), to.lock)
	r, err := t.runner.Run(ctx, c)
	if err == nil && r.ExitCode != 0 {
		err = command.Failed(c, r, errors.New("controller reset failed"))
	}
	return err
}

const tool = "nvme"

// cliIdentify reads the controller itself. sysfs and "nvme list" show what the kernel read when it first saw the drive.
func cliIdentify(device string) command.Command {
	return command.Command{Argv: []string{tool, "id-ctrl", device, "-o", "json"}}
}

// cliSlotLog reads the Firmware Slot Information log.
func cliSlotLog(device string) command.Command {
	return command.Command{Argv: []string{tool, "fw-log", device, "-o", "json"}}
}

// cliDownload transfers an image to the drive's buffer, in pieces of the size the drive asks for.
func cliDownload(device, path, lock string, granularity int, progress driver.Progress) command.Command {
	argv := []string{tool, "fw-download", device, "--fw=" + path, "--progress"}
	if granularity > 0 {
		argv = append(argv, "--xfer="+strconv.Itoa(granularity))
	}
	return command.Command{Argv: argv, Kind: command.Write, Lock: lock, Progress: progress.Lines(parsePercent)}
}

func cliCommit(device, lock string, slot int, action admin.Action) command.Command {
	return command.Command{
		Argv: []string{tool, "fw-commit", device, "--slot=" + strconv.Itoa(slot), "--action=" + strconv.Itoa(int(action))},
		Kind: command.Write,
		Lock: lock,
	}
}

func cliReset(device, lock string) command.Command {
	return command.Command{Argv: []string{tool, "reset", device}, Kind: command.Write, Timeout: resetTimeout, Lock: lock}
}
