package owntool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
)

// Exit codes.
const (
	OK     = 0
	Failed = 1
	// Usage: the arguments are wrong; nothing was requested from the kernel.
	Usage = 2
	// Rejected: a value is not taken. Trying again does not help.
	Rejected = 4
)

// Rejection is the error of an action that says why a value is not taken.
type Rejection string

// Error returns the reason.
func (r Rejection) Error() string { return string(r) }

// Rejectf returns a Rejection.
func Rejectf(format string, args ...any) error { return Rejection(fmt.Sprintf(format, args...)) }

// Action is what a tool was asked to do. It reports what it did by lines.
type Action func(say func(line string)) error

// Run parses arguments, carries out the action, whatever signals come meanwhile, and returns the exit code. An error is one line.
func Run(stdout, stderr io.Writer, parse func() (Action, error)) int {
	defer IgnoreSignals()()
	say := func(w io.Writer, text string) { _, _ = fmt.Fprintln(w, strings.Join(strings.Fields(text), " ")) }
	action, err := parse()
	if err != nil {
		say(stderr, err.Error())
		return Usage
	}
	if err := action(func(line string) { say(stdout, line) }); err != nil {
		say(stderr, err.Error())
		if errors.As(err, new(Rejection)) {
			return Rejected
		}
		return Failed
	}
	return OK
}

// IgnoreSignals keeps the process from being ended by those that ask for it, until what it returns is called: the kernel finishes what was
// requested in any case, and somebody has to see the outcome.
func IgnoreSignals() (stop func()) {
	dropped := make(chan os.Signal, 1)
	signal.Notify(dropped, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	return func() { signal.Stop(dropped) }
}

// Set runs the command of a tool that sets something. The error is a *driver.RejectedError with the words of the tool where it takes no value.
func Set(ctx context.Context, runner command.Runner, c command.Command) error {
	r, err := runner.Run(ctx, c)
	switch {
	case err != nil || r.ExitCode == OK:
		return err
	case r.ExitCode == Rejected:
		return driver.RejectSettingsf("%s", FirstLine(r.Stderr))
	}
	return command.Failed(c, r, errors.New("some of the values may be stored"))
}

// FirstLine is the first line that a tool printed.
func FirstLine(output []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(output), []byte("\n"))
	return strings.ToValidUTF8(string(bytes.TrimSpace(line)), "?")
}

// Idle returns an error that wraps command.ErrBusy while a write of this product to the device runs: the kernel may not answer before it ends, and
// what is read is not what will be. If the runner cannot report that, or the device has no unique id, nil is returned. The lock of an ended write may be held
// for another moment by a process that was started at that time.
func Idle(runner command.Runner, uniqueID string) error {
	writes, ok := runner.(interface {
		Writing(lock string) (*command.Writing, error)
	})
	if !ok || uniqueID == "" {
		return nil
	}
	w, err := writes.Writing(uniqueID)
	if err == nil && w != nil && w.State == command.WriteRunning && w.Ended == nil {
		err = fmt.Errorf("%w: read it again when the write has ended", command.ErrBusy)
	}
	return err
}
