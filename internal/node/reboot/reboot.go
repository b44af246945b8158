package reboot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

// timeout bounds the request, not the reboot: systemctl returns once the reboot is queued.
const timeout = time.Minute

// Host asks the host's service manager for a reboot.
type Host struct {
	Runner command.Runner
	// Argv is the command; Namespaced is the one of a daemon in a container.
	Argv []string
}

// Namespaced is the command of a daemon that shares the host's process ids: systemctl in the namespaces of the host's
// first process.
func Namespaced() []string {
	return []string{"nsenter", "--target", "1", "--mount", "--uts", "--ipc", "--net", "--pid", "--", "systemctl", "reboot"}
}

// Direct is the command of a program that runs on the host itself.
func Direct() []string { return []string{"systemctl", "reboot"} }

// Reboot requests a reboot. It returns nil once the request is accepted; only the boot id says whether the
// host rebooted.
func (h Host) Reboot(ctx context.Context) error {
	c := command.Command{Argv: h.Argv, Kind: command.Query, Timeout: timeout}
	res, err := h.Runner.Run(ctx, c)
	if err != nil {
		return fmt.Errorf("request reboot: %w", err)
	}
	if res.ExitCode != 0 {
		return fmt.Errorf("request reboot: %w", command.Failed(c, res, errors.New("the host refused")))
	}
	return nil
}
