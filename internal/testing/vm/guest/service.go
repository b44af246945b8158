package guest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// restartDelay is the pause before a service is restarted, as a kubelet waits before it restarts a container.
const restartDelay = time.Second

// supervisor keeps one service running.
type supervisor struct {
	service Service

	mu      sync.Mutex
	running *os.Process
	starts  int
}

// run starts the service again and again until the context ends, and ends it then.
func (s *supervisor) run(ctx context.Context) error {
	for {
		if err := s.once(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restartDelay):
		}
	}
}

func (s *supervisor) once(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(s.service.Log), 0o755); err != nil {
		return fmt.Errorf("start %s: %w", s.service.Name, err)
	}
	log, err := os.OpenFile(s.service.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", s.service.Name, err)
	}
	defer log.Close()
	// Not its process group: programs it started in sessions of their own continue without it.
	c := exec.CommandContext(ctx, s.service.Argv[0], s.service.Argv[1:]...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.service.Name, err)
	}
	s.mu.Lock()
	s.running, s.starts = c.Process, s.starts+1
	s.mu.Unlock()
	ended := c.Wait()
	s.mu.Lock()
	s.running = nil
	s.mu.Unlock()
	if ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "agent: %s ended: %v\n", s.service.Name, ended)
	}
	return nil
}

// kill ends the service with SIGKILL and returns the id of the process that ended.
func (s *supervisor) kill() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return 0, fmt.Errorf("%s does not run", s.service.Name)
	}
	return s.running.Pid, s.running.Kill()
}

// status says which process the service is and how often it was started since the machine booted.
func (s *supervisor) status() ServiceState {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := ServiceState{Starts: s.starts}
	if s.running != nil {
		out.PID = s.running.Pid
	}
	return out
}
