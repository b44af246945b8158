package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind says whether a tool only reads or writes to a device. It decides what the runner may do about a tool that does not
// end.
type Kind int

const (
	// Query is a tool that changes nothing. It is killed, with its process group, when its deadline passes or the
	// context ends.
	Query Kind = iota
	// Write is a tool that changes the device. It runs in a session of its own, writes its output to a file, holds
	// Command.Lock through an inherited descriptor, and is never killed: it survives the context, the deadline, the
	// death of this process and, where Config.Worker and Config.Scope are set, the end of its container.
	Write
)

// Command is one run of a tool.
type Command struct {
	// Argv is the tool's base name and its arguments. There is no shell; the runner resolves the name in its own
	// fixed search path.
	Argv []string
	// Env are variables of this command, as KEY=VALUE, beside those that all tools get.
	Env []string
	// Kind is Query unless the tool writes to a device.
	Kind Kind
	// Timeout bounds a Query, which is then killed. For a Write it bounds the wait without any output; the tool keeps running. Zero means
	// the runner's default of one minute for a Query and half an hour for a Write.
	Timeout time.Duration
	// Lock names what a Write changes, such as a card's unique id. Two Writes with the same lock never run at once,
	// over restarts of this process too. Required for a Write.
	Lock string
	// Image, when set, is the image that the tool reads, as it was verified. Nil for a tool that reads none.
	Image *Image
	// Progress, when set, is called with each line of standard output as it appears. It must not block.
	Progress func(line string)
}

// String is the command line for people; it is never executed.
func (c Command) String() string { return strings.Join(c.Argv, " ") }

// Result is the output and exit code of a tool. A tool that ran and exited with any code is a Result, not an error:
// drivers know what their tool's codes mean.
type Result struct {
	ExitCode int
	Stdout   []byte
	Stderr   []byte
}

// Runner runs tools.
type Runner interface {
	// Run runs the command to its end. It returns an *Error when the tool could not be started, was killed by its
	// deadline, printed more than the bound, or, for a Write, has been silent for too long (ErrStillRunning), ended in an
	// unknown way (ErrLost), or cannot start because another Write holds its lock (ErrBusy) or its image is not the verified one
	// any more (ErrImage).
	Run(ctx context.Context, c Command) (Result, error)
}

// Sentinel errors inside an *Error.
var (
	// ErrNotFound: the tool is not installed where the runner looks.
	ErrNotFound = errors.New("tool not found")
	// ErrRefused: the runner must not run the tool, for example because it is too old; see Config.Refused.
	ErrRefused = errors.New("tool not used")
	// ErrCannotRun: the tool is there, and this machine cannot execute it.
	ErrCannotRun = errors.New("tool cannot be executed")
	// ErrTimeout: a Query outlasted its deadline and was killed.
	ErrTimeout = errors.New("killed at its deadline")
	// ErrStillRunning: a Write was silent for too long, or the context ended; the tool goes on.
	ErrStillRunning = errors.New("still running")
	// ErrLost: a Write has ended, but the process that waited for it was killed. Only the device knows the result.
	ErrLost = errors.New("how the write ended is not known; read the device")
	// ErrBusy: another Write holds the lock.
	ErrBusy = errors.New("another write is running")
	// ErrUnprotected: a Write was not begun, because its context requires a protection (RequireProtection) that the host does not give.
	ErrUnprotected = errors.New("the write would not survive the end of the daemon's container, so it was not begun")
	// ErrImage: the image could not be given to the tool as it was verified: the file is another one by now, cannot be read, or there is
	// no room for the copy. The tool was not started.
	ErrImage = errors.New("the tool was not started, because the verified image could not be given to it")
	// ErrOutput: the tool printed more than the bound.
	ErrOutput = errors.New("too much output")
)

// Error says which command failed and what it printed last.
type Error struct {
	Argv []string
	// ExitCode is -1 when the tool did not exit by itself.
	ExitCode int
	// Stderr is the tail of the tool's standard error.
	Stderr string
	Err    error
}

// Error names the command, the cause and the tail of standard error.
func (e *Error) Error() string {
	msg := fmt.Sprintf("run %s: %v", strings.Join(e.Argv, " "), e.Err)
	if e.ExitCode >= 0 {
		msg += fmt.Sprintf(" (exit code %d)", e.ExitCode)
	}
	if tail := strings.TrimSpace(e.Stderr); tail != "" {
		msg += ": " + tail
	}
	return msg
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Failed makes an *Error of a result whose exit code a driver has classified as a failure.
func Failed(c Command, r Result, cause error) *Error {
	const tail = 512
	text := r.Stderr
	if len(strings.TrimSpace(string(text))) == 0 {
		text = r.Stdout
	}
	if len(text) > tail {
		text = text[len(text)-tail:]
	}
	return &Error{Argv: c.Argv, ExitCode: r.ExitCode, Stderr: strings.ToValidUTF8(string(c.named(text)), "?"), Err: cause}
}
