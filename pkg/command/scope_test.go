package command_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
)

// onHost makes a runner protect its writes by the systemd of a simulated host.
func (m machine) onHost(t *testing.T) (*simhost.Machine, func(*command.Config)) {
	t.Helper()
	host, err := simhost.Create(filepath.Join(t.TempDir(), "host"), simhost.DefaultSpec("n1", 1))
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, host.InstallTools(self))
	return host, func(c *command.Config) {
		c.Path = append(c.Path, host.ToolPath())
		tools, err := command.NewExecRunner(command.Config{Path: c.Path})
		require.NoError(t, err)
		systemd := command.Systemd{Runner: tools, Enter: command.EnterHost()}
		c.Scope, c.Inhibit = systemd, systemd.Inhibit()
	}
}

// The pod ends in the middle of a write: the write does not (I6).
func TestAWriteOutlivesItsPod(t *testing.T) {
	m := newMachine(t)
	host, protect := m.onHost(t)
	r, ended := m.flashing(t, protect)
	w := recorded(t, r)
	require.True(t, w.Protected, w.Unprotected)
	require.True(t, w.Inhibited, w.Uninhibited)
	scopes, err := host.Scopes()
	require.NoError(t, err)
	require.Len(t, scopes, 1)
	assert.Equal(t, w.Worker.PID, scopes[0].PID)
	assert.Contains(t, scopes[0].Live, w.Tool.PID)
	held, err := host.Inhibitors()
	require.NoError(t, err)
	require.Len(t, held, 1)
	assert.Equal(t, "shutdown:sleep", held[0].What)

	require.NoError(t, host.KillPod(w.Worker.PID, w.Tool.PID), "as if they were the pod's")
	assert.True(t, w.Worker.Alive())
	assert.True(t, w.Tool.Alive())
	publish(m.file("f.go"), "")
	require.NoError(t, <-ended)
	held, err = host.Inhibitors()
	require.NoError(t, err)
	assert.Empty(t, held, "a reboot is possible as soon as the write is over")
}

func TestNamesMissingProtection(t *testing.T) {
	for name, c := range map[string]struct {
		fault                simhost.Fault
		unprotected, refused string
	}{
		"no scope":        {simhost.Fault{Kind: simhost.Fail, Operation: "scope", Stderr: "Call failed: Access denied"}, "Access denied", ""},
		"no inhibitor":    {simhost.Fault{Kind: simhost.Fail, Operation: "inhibit", Stderr: "Failed to connect to bus"}, "", "connect to bus"},
		"a scope never":   {simhost.Fault{Kind: simhost.Lie, Operation: "scope"}, "wait until process", ""},
		"an empty answer": {simhost.Fault{Kind: simhost.Garbage, Tool: "busctl"}, "wait until process", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			host, protect := m.onHost(t)
			require.NoError(t, host.SetFault(c.fault))
			r := m.runner(t, m.withWorker, protect, func(cfg *command.Config) {
				if strings.HasPrefix(c.unprotected, "wait") {
					cfg.Scope = impatient{cfg.Scope}
				}
			})
			got, err := r.Run(t.Context(), command.Command{Argv: []string{"answer", "0", "out", "err"}, Kind: command.Write, Lock: "card"})
			require.NoError(t, err)
			assert.Equal(t, command.Result{Stdout: []byte("out"), Stderr: []byte("err")}, got)
			w := recorded(t, r)
			assert.Contains(t, w.Unprotected, c.unprotected)
			assert.Equal(t, c.unprotected == "", w.Protected)
			assert.Contains(t, w.Uninhibited, c.refused)
			assert.Equal(t, c.refused == "", w.Inhibited)
		})
	}
}

// impatient does not wait long for a host.
type impatient struct{ command.Scoper }

func (i impatient) Scope(ctx context.Context, pid int, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 6*time.Second)
	defer cancel()
	return i.Scoper.Scope(ctx, pid, name)
}

func TestSystemdCallsAreExact(t *testing.T) {
	asked := [][]string{}
	busctl := func(_ context.Context, c command.Command) (command.Result, error) {
		asked = append(asked, c.Argv)
		if len(asked) == 1 {
			return command.Result{Stdout: []byte("o \"/org/freedesktop/systemd1/job/12\"\n")}, nil
		}
		return command.Result{Stdout: []byte("o \"/org/freedesktop/systemd1/unit/firmware_2dwrite_2d7_2d9_2escope\"\n")}, nil
	}
	runner := commandtest.NewRunner(t, map[string]commandtest.Tool{"busctl": busctl})
	require.NoError(t, command.Systemd{Runner: runner}.Scope(t.Context(), 7, "firmware-write-7-9"))
	manager := []string{"busctl", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"}
	assert.Equal(t, [][]string{
		append(manager[:5:5], "StartTransientUnit", "ssa(sv)a(sa(sv))", "firmware-write-7-9.scope", "fail", "6",
			"Description", "s", "Firmware is being written to a device", "PIDs", "au", "1", "7", "KillSignal", "i", "18",
			"SendSIGKILL", "b", "false", "TimeoutStopUSec", "t", "1800000000", "CollectMode", "s", "inactive-or-failed", "0"),
		append(manager[:5:5], "GetUnitByPID", "u", "7"),
	}, asked)
}
