package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

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
