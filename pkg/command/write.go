package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// pollInterval is how often the output of a write is looked at.
const pollInterval = 200 * time.Millisecond

// write runs a tool that changes a device. Nothing here can end it: it has a session of its own, its output goes to
// files because a pipe would break when this process dies, and it inherits the lock.
func (r *ExecRunner) write(ctx context.Context, tool string, c Command) (Result, error) {
	lock, err := r.acquire(ctx, c)
	if err != nil {
		return Result{}, failedToRun(c, err)
	}
	w, err := r.start(tool, c, lock)
	if err != nil {
		_ = lock.Close()
		return Result{}, failedToRun(c, err)
	}
	defer w.hush()
	timeout := time.NewTimer(orDefault(c.Timeout, r.cfg.WriteTimeout))
	defer timeout.Stop()
	select {
	case <-w.done:
		return outcome(c, w.cmd.ProcessState, Result{Stdout: w.stdout.tail(), Stderr: w.stderr.tail()})
	case <-timeout.C:
		return Result{}, failedToRun(c, ErrStillRunning)
	case <-ctx.Done():
		return Result{}, failedToRun(c, fmt.Errorf("%w: %w", ErrStillRunning, context.Cause(ctx)))
	}
}

// start starts the tool and its supervision. On success the supervision owns the lock.
func (r *ExecRunner) start(tool string, c Command, lock *os.File) (*writing, error) {
	w := &writing{lock: lock, progress: c.Progress, done: make(chan struct{})}
	base := r.lockBase(c.Lock)
	stdout, err := createOutput(base + ".out")
	if err != nil {
		return nil, err
	}
	stderr, err := createOutput(base + ".err")
	if err != nil {
		_ = stdout.Close()
		return nil, err
	}
	w.stdout = &follower{file: stdout, max: r.cfg.MaxOutput, lines: newLineSplitter(w.report)}
	w.stderr = &follower{file: stderr, max: r.cfg.MaxOutput}

	w.cmd = exec.Command(tool, c.Argv[1:]...) // no context: a write outlives all of them
	r.prepare(w.cmd)
	w.cmd.Stdout, w.cmd.Stderr = stdout, stderr
	w.cmd.ExtraFiles = []*os.File{lock}
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := w.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start tool: %w", err), stdout.Close(), stderr.Close())
	}
	recordHolder(lock, w.cmd.Process.Pid, c)
	go w.supervise()
	return w, nil
}

// createOutput empties the output of the previous write. The tool appends, so that emptying it again is always safe.
func createOutput(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND|os.O_TRUNC, 0o600)
}

// writing is a write that was started and may outlast the call that did so.
type writing struct {
	cmd            *exec.Cmd
	lock           *os.File
	stdout, stderr *follower
	done           chan struct{}

	mu       sync.Mutex
	progress func(string)
}

// supervise follows the output until the tool ends, reaps it and lets go of the lock. Descendants of the tool that go
// on keep holding it.
func (w *writing) supervise() {
	ended := make(chan struct{})
	go func() {
		// The exit code is in ProcessState; files are used for output, so no other error is possible.
		_ = w.cmd.Wait()
		close(ended)
	}()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-ticker.C:
		}
		w.stdout.poll()
		w.stderr.poll()
	}
	w.stdout.close()
	w.stderr.close()
	_ = w.lock.Close()
	close(w.done)
}

func (w *writing) report(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.progress != nil {
		w.progress(line)
	}
}

// hush ends progress reports when the caller stops waiting.
func (w *writing) hush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress = nil
}
