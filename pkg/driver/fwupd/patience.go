package fwupd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

// patient runs fwupdtool, of which one runs at a time on a machine: a second one refuses at once, with the same error code that
// it has for an archive it does not take. A scan beside a job, or a person with a shell, is no reason to give up a job or an
// image, so patient waits for the other one to end.
type patient struct {
	command.Runner
	pause Pause
}

// Pause waits for the duration. It returns an error when the context ends before.
type Pause func(ctx context.Context, d time.Duration) error

// How often and how long patient waits: two minutes in all. Longer than that takes only a drive that is being written, and a
// scan is repeated.
const (
	pauseTime = 2 * time.Second
	maxPauses = 60
)

func newPatient(r command.Runner) patient { return patient{r, sleep} }

// sleep is the Pause of the machine's clock.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Run returns an error that wraps command.ErrBusy when the other one did not end in time: nothing was changed then, and the
// call can be repeated. It returns errNoLock when no fwupdtool can run.
func (p patient) Run(ctx context.Context, c command.Command) (command.Result, error) {
	for pauses := 0; ; pauses++ {
		r, err := p.Runner.Run(ctx, c)
		if err != nil || c.Argv[0] != tool {
			return r, err //nolint:wrapcheck // it names the command
		}
		switch e := reported(r); {
		case e == nil || !strings.Contains(e.Message, "Failed to lock"):
			return r, nil
		case !strings.Contains(e.Message, "another instance has locked"):
			return r, command.Failed(c, r, fmt.Errorf("%w (%s)", errNoLock, e.Message))
		case pauses == maxPauses:
			return r, command.Failed(c, r, fmt.Errorf("%w: another fwupdtool has run on this machine for %s; wait for it to end",
				command.ErrBusy, maxPauses*pauseTime))
		}
		if err := p.pause(ctx, pauseTime); err != nil {
			return r, command.Failed(c, r, errors.Join(command.ErrBusy, err))
		}
	}
}

// Installed looks for a tool where the runner does.
func (p patient) Installed(name string) error { return command.Installed(p.Runner, name) }

// errNoLock says that fwupdtool cannot make the file by which it knows of others.
var errNoLock = errors.New("fwupdtool cannot make its lock file: mount the host's /run/lock writable into the daemon's pod, as deploy/kustomize does")
