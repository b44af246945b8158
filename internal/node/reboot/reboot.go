package reboot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

// timeout bounds the request, not the reboot: systemctl returns once the reboot is queued.
const timeout = time.Minute

// Host asks the host's service manager, for a reboot and about the last one.
type Host struct {
	Runner command.Runner
	// Systemctl is the beginning of the command; Namespaced is that of a daemon in a container.
	Systemctl []string
}

// Namespaced is systemctl for a daemon that shares the host's process ids: in the namespaces of the host's first process.
func Namespaced() []string {
	return []string{"nsenter", "--target", "1", "--mount", "--uts", "--ipc", "--net", "--pid", "--", "systemctl"}
}

// Direct is systemctl for a program that runs on the host itself.
func Direct() []string { return []string{"systemctl"} }

func (h Host) query(timeout time.Duration, args ...string) command.Command {
	return command.Command{Argv: append(slices.Clone(h.Systemctl), args...), Kind: command.Query, Timeout: timeout}
}

// throughFirmware keeps systemctl from starting a kernel that somebody has loaded, or user space alone, in place of a reboot: neither
// resets any hardware (docs/ENVIRONMENT.md of systemd). Older versions know one of them, or none.
var throughFirmware = []string{"SYSTEMCTL_SKIP_AUTO_KEXEC=1", "SYSTEMCTL_SKIP_AUTO_SOFT_REBOOT=1"}

// Reboot requests a reboot. It returns nil once the request is accepted; only the boot id says whether the
// host rebooted.
func (h Host) Reboot(ctx context.Context) error {
	c := h.query(timeout, "reboot")
	c.Env = throughFirmware
	res, err := h.Runner.Run(ctx, c)
	if err != nil {
		return fmt.Errorf("request reboot: %w", err)
	}
	if res.ExitCode != 0 {
		return fmt.Errorf("request reboot: %w", command.Failed(c, res, errors.New("the host refused")))
	}
	return nil
}

// askTimeout bounds a question that the service manager answers at once.
const askTimeout = 10 * time.Second

// CanReboot returns nil when the host's service manager answers. Nothing but the request itself asks whether it would reboot.
func (h Host) CanReboot(ctx context.Context) error {
	c := h.query(askTimeout, "show", "--property=Version")
	res, err := h.Runner.Run(ctx, c)
	if err == nil && res.ExitCode != 0 {
		err = command.Failed(c, res, errors.New("the host refused"))
	}
	if err != nil {
		return fmt.Errorf("ask the service manager of the host: %w", err)
	}
	return nil
}

// Where systemd says how far the boot was, in microseconds from the start of the kernel: sysinit.target is active once the
// kernel has found its hardware, and the local file systems and swap are there. Services start after it unless they ask not to
// (systemd.special(7), bootup(7)), so that nothing before it waits for a cluster. The end of the whole boot says less: it comes
// when every service has started, and some count as started only when they have reached a control plane. The property is 0 while
// the unit is not active (org.freedesktop.systemd1(5)).
const (
	sysinit = "sysinit.target"
	entered = "ActiveEnterTimestampMonotonic"
)

// Took is how long this boot took by the host's own account: from the start of the kernel until its services could start; zero
// while that is not known. What services wait for is no part of it, nor is what runs later, such as a container.
func (h Host) Took(ctx context.Context) (time.Duration, error) {
	c := h.query(askTimeout, "show", "--property="+entered, sysinit)
	res, err := h.Runner.Run(ctx, c)
	if err != nil {
		return 0, fmt.Errorf("ask how long the boot took: %w", err)
	}
	if res.ExitCode != 0 {
		return 0, fmt.Errorf("ask how long the boot took: %w", command.Failed(c, res, errors.New("the host refused")))
	}
	took, err := parseTook(string(res.Stdout))
	if err != nil {
		return 0, fmt.Errorf("ask how long the boot took: %w", err)
	}
	return took, nil
}

func parseTook(output string) (time.Duration, error) {
	value, found := strings.CutPrefix(strings.TrimSpace(output), entered+"=")
	if !found {
		return 0, fmt.Errorf("no %s in %q", entered, output)
	}
	const most = uint64(1<<63-1) / uint64(time.Microsecond)
	n, err := strconv.ParseUint(value, 10, 63)
	if err != nil || n > most {
		return 0, fmt.Errorf("%s is no number of microseconds: %q", entered, value)
	}
	return time.Duration(n) * time.Microsecond, nil //nolint:gosec // bounded above
}

// SinceBoot is for how long the kernel has run, with the time in which it was suspended. Nobody sets this clock, and it does
// not end with the process.
func SinceBoot() (time.Duration, error) {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
		return 0, fmt.Errorf("read the clock of the boot: %w", err)
	}
	return time.Duration(at.Nano()), nil
}
