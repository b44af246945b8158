package devlink

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
)

// Tool is the name of the tool of this package.
const Tool = "firmware-devlink"

func flashCommand(h Handle, img driver.Image, lock string, progress driver.Progress) command.Command {
	return command.Command{
		Argv:     []string{Tool, "flash", h.String(), "--file", img.Path, "--digest", img.Digest.String()},
		Kind:     command.Write,
		Lock:     lock,
		Progress: progress.Lines(parsePercent),
	}
}

func activateCommand(h Handle, lock string) command.Command {
	return command.Command{Argv: []string{Tool, "activate", h.String()}, Kind: command.Write, Lock: lock}
}

var percentage = regexp.MustCompile(`^(\d{1,3})% `)

func parsePercent(line string) (percent int, found bool) {
	m := percentage.FindStringSubmatch(line)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

// classify turns the exit code of a flash into an error.
func (a adapters) classify(c command.Command, r command.Result) error {
	switch {
	case r.ExitCode == exitOK:
		return nil
	case r.ExitCode == exitRejected, r.ExitCode == exitUnsupported && a.unsupportedIsImage:
		return driver.Rejectf("the kernel driver does not accept the image: %s", firstLine(r.Stderr))
	case r.ExitCode == exitChanged:
		return command.Failed(c, r, command.ErrImage)
	case r.ExitCode == exitNotFound:
		return command.Failed(c, r, errors.New("the kernel did not find the image"))
	case r.ExitCode == exitUnsupported:
		return fmt.Errorf("%w: %w", command.Failed(c, r, errors.New("the kernel driver does not support it")), driver.ErrNotSupported)
	case r.ExitCode == exitBusy:
		return command.Failed(c, r, errors.New("the adapter is busy: try again"))
	}
	return command.Failed(c, r, errors.New("the flash failed"))
}
