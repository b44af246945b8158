package devlink

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"

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

// queries are the info requests of this process to the kernel. The kernel answers a request about a device that is
// being written only when the write has ended, and a request cannot be cancelled: its thread is blocked until then.
// Therefore there is at most one request per device at a time, and a caller waits for it no longer than its own
// context.
type queries struct {
	mu    sync.Mutex
	turns map[Handle]chan struct{}
}

func (q *queries) turn(h Handle) chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.turns == nil {
		q.turns = map[Handle]chan struct{}{}
	}
	if q.turns[h] == nil {
		q.turns[h] = make(chan struct{}, 1)
	}
	return q.turns[h]
}

// info requests the info of a device.
func (q *queries) info(ctx context.Context, dial Dialer, h Handle) (Info, error) {
	type answer struct {
		info Info
		err  error
	}
	late := func(why string) error {
		return fmt.Errorf("ask for info of %s: %w: %s", h, context.Cause(ctx), why)
	}
	turn := q.turn(h)
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return Info{}, late("the kernel has not answered an earlier query yet; the device is being written or reloaded, or hangs")
	}
	answered := make(chan answer, 1)
	go func() {
		defer func() { <-turn }()
		info, err := dial.info(h)
		answered <- answer{info, err}
	}()
	select {
	case a := <-answered:
		return a.info, a.err
	case <-ctx.Done():
		return Info{}, late("the kernel does not answer while it writes or reloads the device; read it again afterwards")
	}
}
