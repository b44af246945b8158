package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is one program of the product that the lab runs.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{}
	// err and ran, how it ended and how long it ran, are set when done is closed.
	err error
	ran time.Duration
}

// start runs a program in a process group of its own, so that a Ctrl-C reaches only the lab, which then stops its
// programs in order. The kernel kills the program when the lab dies.
func start(name, logPath, binary string, args ...string) (*process, error) {
	return startWith(nil, name, logPath, binary, args...)
}

// startWith is start with an environment of its own; nil for that of the lab.
func startWith(env []string, name, logPath, binary string, args ...string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, cmd: exec.Command(binary, args...), log: log, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = log, log, env
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		// The death signal is sent when the forking thread ends, so the thread has to live as long as the program.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := p.cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		began := time.Now()
		p.err = p.cmd.Wait()
		p.ran = time.Since(began)
		_ = log.Close()
		close(p.done)
	}()
	if err := <-started; err != nil {
		_ = log.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// stop asks the program to end, and kills it if it does not end in time.
func (p *process) stop(grace time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		p.kill()
	}
}

// running reports whether the program has not ended.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill ends the program as a power cut does. Programs it started in sessions of their own continue.
func (p *process) kill() {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return
	}
	<-p.done
}

// pid is the program's process id.
func (p *process) pid() int { return p.cmd.Process.Pid }
