package nvme

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/nvmetool"
)

// native is the transport through the running kernel. It reads in this process. Writes run in a separate process, which
// survives this one.
type native struct {
	runner command.Runner
	reader *reader
}

func newNative(runner command.Runner, open admin.Opener) native {
	return native{runner: runner, reader: newReader(open)}
}

func (t native) usable() error { return command.Installed(t.runner, nvmetool.Name) }

func (t native) read(ctx context.Context, node string) (controller, slotLog, error) {
	c, l, err := t.reader.read(ctx, node)
	if err != nil {
		return controller{}, slotLog{}, fmt.Errorf("read /dev/%s: %w", node, err)
	}
	return c, l, nil
}

func (t native) powerOnHours(ctx context.Context, node string) (int64, error) {
	hours, err := ofDrive(ctx, t.reader, node, true, admin.ReadPowerOnHours)
	if err != nil {
		return 0, fmt.Errorf("read /dev/%s: %w", node, err)
	}
	return hours, nil
}

func (t native) download(ctx context.Context, to target, img driver.Image, slot int, progress driver.Progress) (answer, error) {
	c := img.HeldFor(to.command(nvmetool.DownloadCommit, "--image="+img.Path, "--digest="+img.Digest.String(),
		"--piece="+strconv.Itoa(to.controller.piece()), "--slot="+strconv.Itoa(slot)))
	c.Progress = progress.Lines(driver.Percentage)
	a, phase, err := t.run(ctx, c)
	if err != nil {
		return answer{}, err
	}
	if phase == nvmetool.PhaseDownload {
		return answer{}, fmt.Errorf("download firmware: %w", a.refusal())
	}
	return a, nil
}

func (t native) commit(ctx context.Context, to target, slot int, action admin.Action) (answer, error) {
	a, _, err := t.run(ctx, to.command(nvmetool.Commit, "--slot="+strconv.Itoa(slot), "--action="+strconv.Itoa(int(action))))
	return a, err
}

func (t native) sanitizeLog(ctx context.Context, node string) (admin.SanitizeLog, error) {
	log, err := ofDrive(ctx, t.reader, node, false, admin.ReadSanitizeLog)
	if err != nil {
		return admin.SanitizeLog{}, fmt.Errorf("read /dev/%s: %w", node, err)
	}
	return log, nil
}

func (t native) sanitize(ctx context.Context, to target, action admin.SanitizeAction) (answer, error) {
	a, _, err := t.run(ctx, to.command(nvmetool.Sanitize, "--action="+strconv.Itoa(int(action))))
	return a, err
}

func (t native) reset(ctx context.Context, to target) error {
	c := to.command(nvmetool.Reset)
	c.Timeout = resetTimeout
	a, _, err := t.run(ctx, c)
	if err == nil && a.status != admin.Success {
		err = a.failed("controller reset failed")
	}
	return err
}

// command is a call of the tool. The tool compares model and serial number with those of the drive it opened, because the
// kernel may have given the name to another drive.
func (t target) command(verb string, args ...string) command.Command {
	argv := []string{nvmetool.Name, verb, "--device=" + t.node, "--model=" + t.controller.Model, "--serial=" + t.controller.Serial}
	return command.Command{Argv: append(argv, args...), Kind: command.Write, Lock: t.lock}
}

// errUnsent means that no command was sent that changes the drive.
var errUnsent = errors.New("nothing was sent to the drive")

var toolStatus = regexp.MustCompile(`(?m)^(download|commit|reset|sanitize) status 0x([0-9a-f]{1,4})$`)

// run runs the tool and returns the answer of the drive to the last command, and which command that was.
func (t native) run(ctx context.Context, c command.Command) (a answer, phase string, err error) {
	r, err := t.runner.Run(ctx, c)
	if err != nil {
		return answer{}, "", err
	}
	found := toolStatus.FindAllStringSubmatch(string(r.Stdout), -1)
	switch {
	case r.ExitCode == nvmetool.ExitGone:
		return answer{}, "", command.Failed(c, r, admin.ErrGone)
	case r.ExitCode == nvmetool.ExitUsage:
		return answer{}, "", command.Failed(c, r, errUnsent)
	case r.ExitCode != nvmetool.ExitDone && r.ExitCode != nvmetool.ExitRefused:
		return answer{}, "", command.Failed(c, r, errors.New("the drive did not answer a command"))
	case len(found) == 0:
		return answer{}, "", command.Failed(c, r, errors.New("the tool did not print the drive's answer"))
	}
	last := found[len(found)-1]
	n, err := strconv.ParseUint(last[2], 16, 16)
	if err != nil {
		return answer{}, "", command.Failed(c, r, err)
	}
	return answer{admin.CleanStatus(n), c, r}, last[1], nil
}

// transport sends the driver's admin commands to a drive and returns the answers. It decides nothing.
type transport interface {
	// read asks for Identify Controller and the slot log. The log may be missing where the drive does not accept firmware.
	read(ctx context.Context, node string) (controller, slotLog, error)
	// powerOnHours asks for the count in the SMART / Health Information log.
	powerOnHours(ctx context.Context, node string) (int64, error)
	// download transfers the image and commits it to the slot with admin.ReplaceAtReset. The answer is the drive's to the
	// commit; a refused download is an error.
	download(ctx context.Context, t target, img driver.Image, slot int, progress driver.Progress) (answer, error)
	// commit commits what the slot holds already.
	commit(ctx context.Context, t target, slot int, action admin.Action) (answer, error)
	// reset resets the controller.
	reset(ctx context.Context, t target) error
	// sanitizeLog asks for the Sanitize Status log.
	sanitizeLog(ctx context.Context, node string) (admin.SanitizeLog, error)
	// sanitize begins a sanitize operation.
	sanitize(ctx context.Context, t target, action admin.SanitizeAction) (answer, error)
	// usable returns why the transport cannot work on this machine.
	usable() error
}

// target is the drive that a command changes.
type target struct {
	node, lock string
	controller controller
}

func (t target) path() string { return "/dev/" + t.node }

// answer is the status a drive returned for a command that changes it, and the command, for error messages.
type answer struct {
	status  admin.Status
	command command.Command
	result  command.Result
}

// resetTimeout bounds a controller reset: the controller may take two minutes to become ready (CAP.TO) before the
// kernel gives up on it.
const resetTimeout = 5 * time.Minute
