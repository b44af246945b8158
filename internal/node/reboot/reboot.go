package reboot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// Reboot requests a reboot. It returns nil once the request is accepted; only the boot id says whether the
// host rebooted.
func (h Host) Reboot(ctx context.Context) error {
	c := h.query(timeout, "reboot")
	res, err := h.Runner.Run(ctx, c)
	if err != nil {
		return fmt.Errorf("request reboot: %w", err)
	}
	if res.ExitCode != 0 {
		return fmt.Errorf("request reboot: %w", command.Failed(c, res, errors.New("the host refused")))
	}
	return nil
}
