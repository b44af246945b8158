package toolcontract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Answer is what a tool printed, and its exit code.
type Answer struct {
	Exit           int
	Stdout, Stderr string
}

// Runner runs a command line to its end. Its error wraps ErrNotInstalled where there is no such tool.
type Runner func(ctx context.Context, argv, env []string) (Answer, error)

// ErrNotInstalled says that a tool is not there.
var ErrNotInstalled = errors.New("the tool is not installed")

// deadline bounds one call of a tool. None of the cases reaches hardware.
const deadline = time.Minute

// Exec runs tools behind a prefix, such as "chroot /image" or "podman run --rm -v ... IMAGE"; without one it runs them on this
// machine. A prefix has to end in what runs a command line, and to find "env" there.
func Exec(prefix ...string) Runner {
	return func(ctx context.Context, argv, env []string) (Answer, error) {
		ctx, stop := context.WithTimeout(ctx, deadline)
		defer stop()
		var line []string
		line = append(line, prefix...)
		if len(prefix) > 0 {
			line = append(append(line, "env", "LC_ALL=C"), env...)
		}
		line = append(line, argv...)
		cmd := exec.CommandContext(ctx, line[0], line[1:]...)
		cmd.WaitDelay = time.Second
		if len(prefix) == 0 {
			cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=/"}, env...)
		}
		return Finish(ctx, cmd)
	}
}

// Finish runs a command to its end; for runners of other kinds.
func Finish(ctx context.Context, cmd *exec.Cmd) (Answer, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	answer := Answer{Exit: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return answer, fmt.Errorf("run %s: no end within %v", strings.Join(cmd.Args, " "), deadline)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return answer, fmt.Errorf("run %s: %w", cmd.Args[0], ErrNotInstalled)
	case errors.As(err, &exit) && exit.Exited():
		return answer, notFound(answer)
	case err != nil:
		return answer, fmt.Errorf("run %s: %w", strings.Join(cmd.Args, " "), err)
	}
	return answer, nil
}

// notFound is an error for the exit code with which "env" and shells report a command that is not there.
func notFound(a Answer) error {
	if a.Exit != 127 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrNotInstalled, strings.TrimSpace(a.Stderr))
}

// VersionOf asks a tool for its version.
func (t Tool) VersionOf(ctx context.Context, run Runner) (string, error) {
	a, err := run(ctx, append([]string{t.Name}, t.VersionArgs...), nil)
	if err != nil {
		return "", err
	}
	m := t.VersionText.FindStringSubmatch(a.Stdout + a.Stderr)
	if m == nil {
		return "", fmt.Errorf("find the version of %s: it is not in %q", t.Name, a.Stdout+a.Stderr)
	}
	return m[1], nil
}

// ConditionsOf asks a machine in the way in which the tools ask it.
func ConditionsOf(ctx context.Context, run Runner) []Condition {
	var on []Condition
	if a, err := run(ctx, []string{"mokutil", "--sb-state"}, nil); err == nil && strings.TrimSpace(a.Stdout) == "SecureBoot enabled" {
		on = append(on, SecureBoot)
	}
	if a, err := run(ctx, []string{"lscpu"}, nil); err == nil && a.Exit == 0 && strings.Contains(a.Stdout, "Hypervisor vendor") {
		on = append(on, Virtual)
	}
	return on
}
