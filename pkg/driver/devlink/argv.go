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

func flashCommand(h Handle, path, lock string, progress driver.Progress) command.Command {
	return command.Command{
		Argv:     []string{Tool, "flash", h.String(), "--file", path},
		Kind:     command.Write,
		Lock:     lock,
		Progress: flashProgress(progress),
	}
}

func activateCommand(h Handle, lock string) command.Command {
	return command.Command{Argv: []string{Tool, "activate", h.String()}, Kind: command.Write, Lock: lock}
}

var percentage = regexp.MustCompile(`^(\d{1,3})% `)

// flashProgress turns lines of output into percentages that never fall: a driver of the kernel may count each of the parts
// of an image anew.
func flashProgress(progress driver.Progress) func(line string) {
	if progress == nil {
		return nil
	}
	highest := -1
	return func(line string) {
		m := percentage.FindStringSubmatch(line)
		if m == nil {
			return
		}
		if n, err := strconv.Atoi(m[1]); err == nil && n <= 100 && n > highest {
			highest = n
			progress(n)
		}
	}
}

// classify turns the exit code of a flash into an error.
func classify(c command.Command, r command.Result) error {
	switch r.ExitCode {
	case exitOK:
		return nil
	case exitRejected:
		return driver.Rejectf("the kernel's driver does not accept the image: %s", firstLine(r.Stderr))
	case exitNotFound:
		return command.Failed(c, r, errors.New("the kernel does not find the image"))
	case exitUnsupported:
		return fmt.Errorf("%w: %w", command.Failed(c, r, errors.New("the kernel's driver cannot")), driver.ErrNotSupported)
	case exitBusy:
		return command.Failed(c, r, errors.New("the adapter is busy: try again"))
	}
	return command.Failed(c, r, errors.New("the flash failed"))
}
