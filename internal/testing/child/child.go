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

// Process is a running program.
type Process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start runs a program in a process group of its own, so that a Ctrl-C reaches only the lab, which then stops its programs in
// order. The kernel kills the program when the lab dies. What it prints is added to the log.
func Start(name, log, program string, args ...string) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{name: name, cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		// The death signal is sent when the forking thread ends, so the thread has to live as long as the program.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer file.Close()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
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

// Err says how the program ended, once Done is closed.
func (p *Process) Err() error { return p.err }

// Stop asks the program to end, and kills it if it does not end in time.
func (p *Process) Stop(grace time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		p.Kill()
	}
}

// Kill ends the program as a power cut does, and returns when it has ended.
func (p *Process) Kill() {
	if err := p.cmd.Process.Kill(); err == nil || !errors.Is(err, os.ErrProcessDone) {
		<-p.done
	}
}
