package reboot

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

// The properties of systemd's manager, in microseconds from the start of the kernel: when the service manager of the host
// itself began, after the initial RAM disk, and when everything that belongs to the boot had started. The second is 0
// while that has not happened (org.freedesktop.systemd1(5)).
const (
	userspace = "UserspaceTimestampMonotonic"
	finished  = "FinishTimestampMonotonic"
)

// tookTimeout bounds the question how long the boot took.
const tookTimeout = 10 * time.Second

// Took is how long this boot took by the host's own account: from the start of the kernel until the services of the host
// had started or, while some are still starting, until the first one could. What runs later, such as a container, is no
// part of it.
func (h Host) Took(ctx context.Context) (time.Duration, error) {
	c := h.query(tookTimeout, "show", "--property="+userspace+","+finished)
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
	at := map[string]time.Duration{}
	for line := range strings.Lines(output) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if name != userspace && name != finished {
			continue
		}
		const most = uint64(1<<63-1) / uint64(time.Microsecond)
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil || n > most {
			return 0, fmt.Errorf("%s is no number of microseconds: %q", name, value)
		}
		at[name] = time.Duration(n) * time.Microsecond //nolint:gosec // bounded above
	}
	if len(at) < 2 {
		return 0, fmt.Errorf("no %s and %s in %q", userspace, finished, output)
	}
	return max(at[userspace], at[finished]), nil
}
