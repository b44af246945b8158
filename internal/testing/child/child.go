// Package child builds the programs that tests start, and runs those of a lab, which end with it.
package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a program that was started.
type Process struct {
	// Name is what it is called in messages, and Log the file with what it prints.
	Name, Log string

	cmd  *exec.Cmd
	done chan struct{}
	err  error
	ran  time.Duration
}

// Start runs a program in a process group of its own, so that a Ctrl-C reaches only the lab, which then stops its programs in
// order. The kernel kills the program when the lab dies. What it prints is added to the log.
func Start(name, log, program string, args ...string) (*Process, error) {
	return StartWith(nil, name, log, program, args...)
}

// StartWith is Start with another environment than that of this process; nil for that one.
func StartWith(env []string, name, log, program string, args ...string) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{Name: name, Log: log, cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = file, file, env
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	// The death signal is sent when the thread that started the program ends, so that thread must not.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer file.Close()
		began := time.Now()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			p.ran = time.Since(began)
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether it has not.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Err is why it ended, known when Done is closed.
func (p *Process) Err() error { return p.err }

// Ran is how long it ran, known then too.
func (p *Process) Ran() time.Duration { return p.ran }

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop asks the program to end and kills it if it does not within the time.
func (p *Process) Stop(grace time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		p.Kill()
	}
}

// Kill ends the program at once and waits until it is gone.
func (p *Process) Kill() {
	if err := p.cmd.Process.Kill(); err == nil || errors.Is(err, os.ErrProcessDone) {
		<-p.done
	}
}
