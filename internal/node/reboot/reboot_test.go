package reboot_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/reboot"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

type host struct {
	ran  []string
	env  []string
	code int
	err  error
}

func (h *host) Run(_ context.Context, c command.Command) (command.Result, error) {
	h.ran, h.env = append(h.ran, c.String()), c.Env
	return command.Result{ExitCode: h.code, Stderr: []byte("Access denied")}, h.err
}

func TestRebootAsksTheHostOnce(t *testing.T) {
	h := &host{}
	require.NoError(t, reboot.Host{Runner: h, Systemctl: reboot.Namespaced()}.Reboot(t.Context()))
	assert.Equal(t, []string{"nsenter --target 1 --mount --uts --ipc --net --pid -- systemctl reboot"}, h.ran)
}

func TestRefusedRebootNamesTheCause(t *testing.T) {
	err := reboot.Host{Runner: &host{code: 1}, Systemctl: reboot.Direct()}.Reboot(t.Context())
	require.ErrorContains(t, err, "Access denied")
	require.ErrorContains(t, err, "systemctl reboot")
	missing := &command.Error{Argv: reboot.Direct(), ExitCode: -1, Err: command.ErrNotFound}
	require.ErrorIs(t, reboot.Host{Runner: &host{err: missing}, Systemctl: reboot.Direct()}.Reboot(t.Context()), command.ErrNotFound)
}

// A kernel that somebody loaded, and a soft reboot, would be taken in place of a reboot and reset nothing.
func TestRebootSkipsKexec(t *testing.T) {
	h := &host{}
	require.NoError(t, reboot.Host{Runner: h, Systemctl: reboot.Direct()}.Reboot(t.Context()))
	assert.Equal(t, []string{"SYSTEMCTL_SKIP_AUTO_KEXEC=1", "SYSTEMCTL_SKIP_AUTO_SOFT_REBOOT=1"}, h.env)
}

func TestCanRebootAsksTheHost(t *testing.T) {
	h := &host{}
	require.NoError(t, reboot.Host{Runner: h, Systemctl: reboot.Namespaced()}.CanReboot(t.Context()))
	assert.Equal(t, []string{"nsenter --target 1 --mount --uts --ipc --net --pid -- systemctl show --property=Version"}, h.ran)
	err := reboot.Host{Runner: &host{code: 1}, Systemctl: reboot.Direct()}.CanReboot(t.Context())
	require.ErrorContains(t, err, "Access denied")
	missing := &command.Error{Argv: reboot.Direct(), ExitCode: -1, Err: command.ErrNotFound}
	require.ErrorIs(t, reboot.Host{Runner: &host{err: missing}, Systemctl: reboot.Direct()}.CanReboot(t.Context()), command.ErrNotFound)
}
