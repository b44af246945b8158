package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// inhibitTimeout is how long a host may take to confirm the inhibitor: its systemd, its login manager and their bus may all have
	// to be loaded from a slow disk. The write is kept waiting meanwhile.
	inhibitTimeout = 30 * time.Second
	// releaseTimeout is how long the end of the inhibitor is waited for.
	releaseTimeout = 5 * time.Second
)

// inhibition is a command that keeps the host from shutting down for as long as it runs. It copies its input to its
// output: one byte sent and read back proves that it holds, and it ends at the end of its input. The tool inherits the
// other end, so that it holds exactly as long as the worker, the tool or anything the tool left behind lives, whoever
// is killed.
type inhibition struct {
	cmd   *exec.Cmd
	input *os.File
	gone  chan struct{}
}

// newInhibition starts the command and waits until it holds. It returns nil without an error when there is no command.
func newInhibition(argv []string) (*inhibition, error) {
	if len(argv) == 0 {
		return nil, nil
	}
	in, input, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("inhibit shutdown: %w", err)
	}
	output, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("inhibit shutdown: %w", err), in.Close(), input.Close())
	}
	defer output.Close()
	stderr := &tailBuffer{}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = "/", os.Environ() //nolint:forbidigo // the runner has set the worker's environment for tools
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, stderr
	cmd.WaitDelay = waitDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	_, _ = in.Close(), out.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("inhibit shutdown: %w", err), input.Close())
	}
	h := &inhibition{cmd: cmd, input: input, gone: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // that it ended says it all
		close(h.gone)
	}()
	if err := h.echo(output); err != nil {
		h.end()
		return nil, fmt.Errorf("inhibit shutdown: %w%s", err, stderr.after(": "))
	}
	return h, nil
}

// echo proves that the command runs and holds.
func (h *inhibition) echo(output *os.File) error {
	if err := output.SetReadDeadline(time.Now().Add(inhibitTimeout)); err != nil {
		return err
	}
	if _, err := h.input.Write([]byte{'\n'}); err != nil {
		return err
	}
	if _, err := io.ReadFull(output, make([]byte, 1)); err != nil {
		return fmt.Errorf("wait until the inhibitor holds: %w", err)
	}
	return nil
}

// files are what the tool has to inherit.
func (h *inhibition) files() []*os.File {
	if h == nil {
		return nil
	}
	return []*os.File{h.input}
}

// release closes its end, and waits until the command has ended, unless a process that the tool left behind still holds it.
func (h *inhibition) release() error {
	if h == nil {
		return nil
	}
	err := h.input.Close()
	select {
	case <-h.gone:
	case <-time.After(releaseTimeout):
	}
	return err
}

// end kills a command that does not inhibit. That is safe, because the command changes nothing.
func (h *inhibition) end() {
	_ = h.input.Close()
	select {
	case <-h.gone:
	default:
		_ = syscall.Kill(-h.cmd.Process.Pid, syscall.SIGKILL)
		<-h.gone
	}
}

// tailBuffer keeps the last few hundred bytes.
type tailBuffer struct{ data []byte }

// Write takes everything.
func (b *tailBuffer) Write(p []byte) (int, error) {
	const limit = 512
	b.data = append(b.data, p...)
	b.data = b.data[max(0, len(b.data)-limit):]
	return len(p), nil
}

// after is the separator followed by what was written, or empty if nothing was. The writer must have ended.
func (b *tailBuffer) after(separator string) string {
	text := bytes.TrimSpace(b.data)
	if len(text) == 0 {
		return ""
	}
	return separator + strings.ToValidUTF8(string(text), "?")
}

// Systemd protects writes on a host whose first process is systemd: it moves workers into transient scope units, and holds
// off a shutdown of the host while they run.
type Systemd struct {
	// Runner runs busctl. It is a runner without a Scope of its own.
	Runner Runner
	// Enter is the command in front of the host's tools: EnterHost in a container, nothing on the host itself.
	Enter []string
}

// EnterHost runs a tool of the host instead of the container's. The container must share the host's process ids.
func EnterHost() []string {
	return []string{"nsenter", "--target", "1", "--mount", "--uts", "--ipc", "--net", "--"}
}

// stopTimeout is how long systemd waits for a write when a reboot of the host is requested. Its own reboot gives up
// after this time.
const stopTimeout = 30 * time.Minute

// Scope implements Scoper. A scope is stopped only at shutdown: systemd then sends a harmless signal (SIGCONT), kills nothing, and waits
// for the write to end.
func (s Systemd) Scope(ctx context.Context, pid int, name string) error {
	unit := name + ".scope"
	if _, err := s.call(ctx, scopeArgs(pid, unit)...); err != nil {
		return fmt.Errorf("move process %d into a scope of the host: %w", pid, err)
	}
	// systemd answers before it has moved anything.
	const pause = 20 * time.Millisecond
	for {
		answer, err := s.call(ctx, "GetUnitByPID", "u", strconv.Itoa(pid))
		if err == nil && strings.HasSuffix(strings.Trim(strings.TrimSpace(answer), `"`), "/"+busLabel(unit)) {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait until process %d is in %s: %w", pid, unit, context.Cause(ctx)), err)
		}
	}
}

// scopeArgs is a call of StartTransientUnit(name, mode, properties, auxiliary units).
func scopeArgs(pid int, unit string) []string {
	return []string{
		"StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "fail", "6",
		"Description", "s", "Firmware is being written to a device",
		"PIDs", "au", "1", strconv.Itoa(pid),
		"KillSignal", "i", "18",
		"SendSIGKILL", "b", "false",
		"TimeoutStopUSec", "t", strconv.FormatInt(stopTimeout.Microseconds(), 10),
		"CollectMode", "s", "inactive-or-failed",
		"0",
	}
}

// call calls a method of systemd and returns what busctl printed.
func (s Systemd) call(ctx context.Context, args ...string) (string, error) {
	const service, object, manager = "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"
	c := Command{Argv: slices.Concat(s.Enter, []string{"busctl", "call", service, object, manager}, args)}
	res, err := s.Runner.Run(ctx, c)
	if failure := (*Error)(nil); errors.As(err, &failure) {
		return "", fmt.Errorf("call %s: %w", args[0], failure.Err) // without the command line, which explains nothing
	}
	if err != nil {
		return "", fmt.Errorf("call %s: %w", args[0], err)
	}
	if res.ExitCode != 0 {
		return "", fmt.Errorf("call %s: systemd refused: %s", args[0], strings.ToValidUTF8(strings.TrimSpace(string(res.Stderr)), "?"))
	}
	return string(res.Stdout), nil
}

// Inhibit is the command for Config.Inhibit. systemd before version 257 ignores the inhibitor when root requests the
// reboot; on such hosts the scope makes the reboot wait.
func (s Systemd) Inhibit() []string {
	return append(slices.Clone(s.Enter), "systemd-inhibit", "--what=shutdown:sleep", "--mode=block",
		"--who=node-firmware-operator", "--why=Firmware is being written to a device", "cat")
}

// busLabel is the name of a unit in an object path of D-Bus.
func busLabel(unit string) string {
	var b strings.Builder
	for i, c := range []byte(unit) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if letter || i > 0 && c >= '0' && c <= '9' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}
