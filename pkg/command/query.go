package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// waitDelay is how long a query's descendants may keep its pipes open after it ended or was killed.
const waitDelay = 2 * time.Second

// query runs a tool that changes nothing, in a process group of its own that is killed as a whole.
func (r *ExecRunner) query(ctx context.Context, tool []string, c Command) (Result, error) {
	ctx, stop := context.WithTimeoutCause(ctx, orDefault(c.Timeout, r.cfg.QueryTimeout), ErrTimeout)
	defer stop()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)

	overflow := func() { abort(fmt.Errorf("%w: more than %d bytes", ErrOutput, r.cfg.MaxOutput)) }
	stdout := &boundedBuffer{max: r.cfg.MaxOutput, overflow: overflow, lines: newLineSplitter(c.Progress)}
	stderr := &boundedBuffer{max: r.cfg.MaxOutput, overflow: overflow}

	image, err := c.hold(r.cfg.MaxInMemory)
	if err != nil {
		return Result{}, failedToRun(c, err)
	}
	defer image.Close()
	argv := argvOf(tool, c.reading(queryImageFD))
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	r.prepare(cmd, c)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.ExtraFiles = files(image) // queryImageFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = waitDelay

	err = cmd.Run()
	if cmd.ProcessState == nil {
		return Result{}, failedToRun(c, startError(ctx, err))
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		// The tool is gone but descendants hold its pipes; the group still exists, so its id is not reused.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	stdout.lines.flush()
	result := Result{Stdout: stdout.data.Bytes(), Stderr: stderr.data.Bytes()}
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrOutput) || (cause != nil && !cmd.ProcessState.Exited()) {
		result.ExitCode = -1
		return Result{}, Failed(c, result, killCause(cause))
	}
	return outcome(c, cmd.ProcessState, result)
}

// startError prefers the end of the context to what it did to the start.
func startError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return killCause(cause)
	}
	return fmt.Errorf("start tool: %w", explainStart(err))
}

// explainStart says what is wrong with a tool that is there and that the kernel does not start.
func explainStart(err error) error {
	var why string
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		why = "it is for processors of another architecture than " + runtime.GOARCH + ", or is damaged: install the one for this machine"
	case errors.Is(err, syscall.ENOENT):
		why = "what runs it, the interpreter of a script or the loader of a program, is missing: install what the tool needs"
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		why = "the file system that it is on does not allow it: mount it without noexec"
	default:
		return err
	}
	return fmt.Errorf("%w: %s (%w)", ErrCannotRun, why, err)
}

// killCause makes a deadline of the caller's context look like one of the command.
func killCause(cause error) error {
	if errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrTimeout, cause)
	}
	return cause
}

// boundedBuffer collects output up to a bound and reports the first byte beyond it.
type boundedBuffer struct {
	max      int64
	data     bytes.Buffer
	overflow func()
	lines    *lineSplitter
}

// Write takes what fits; more ends the copying.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	room := b.max - int64(b.data.Len())
	if int64(len(p)) > room {
		b.data.Write(p[:room])
		b.overflow()
		return int(room), ErrOutput
	}
	b.lines.feed(p)
	return b.data.Write(p)
}

// maxLine bounds a line given to Progress; the rest of a longer one is dropped.
const maxLine = 4096

// lineSplitter calls back with each line. Vendor tools redraw their progress in place with carriage returns and
// backspaces, so both end a line as well; empty lines are skipped.
type lineSplitter struct {
	line     []byte
	callback func(string)
}

// newLineSplitter returns nil, which takes and drops everything, when there is no callback.
func newLineSplitter(callback func(string)) *lineSplitter {
	if callback == nil {
		return nil
	}
	return &lineSplitter{callback: callback}
}

func (s *lineSplitter) feed(p []byte) {
	if s == nil {
		return
	}
	for len(p) > 0 {
		end := bytes.IndexAny(p, "\n\r\b")
		part := p
		if end >= 0 {
			part = p[:end]
		}
		s.line = append(s.line, part[:min(len(part), maxLine-len(s.line))]...)
		if end < 0 {
			return
		}
		s.flush()
		p = p[end+1:]
	}
}

// flush reports a line that has no end yet.
func (s *lineSplitter) flush() {
	if s == nil || len(s.line) == 0 {
		return
	}
	s.callback(string(s.line))
	s.line = s.line[:0]
}

// all reports the lines of a text, including an unfinished last one.
func (s *lineSplitter) all(p []byte) {
	s.feed(p)
	s.flush()
}
