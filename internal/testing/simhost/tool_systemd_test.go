package simhost

import (
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newScope is the call that makes a scope of a process.
func newScope(unit string, pid int, extra ...string) []string {
	return append([]string{
		"nsenter", "--target", "1", "--mount", "--uts", "--ipc", "--net", "--",
		"busctl", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager",
		"StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "fail", "2",
		"PIDs", "au", "1", strconv.Itoa(pid), "KillSignal", "i", "18", "0",
	}, extra...)
}

func unitOf(m *Machine, pid int) output {
	return run(m, "busctl", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager",
		"GetUnitByPID", "u", strconv.Itoa(pid))
}

// burning starts a burn that takes until its fault is cleared, in a session of its own as a daemon starts it.
func burning(t *testing.T, m *Machine, key, version string) *exec.Cmd {
	t.Helper()
	require.NoError(t, m.SetFault(Fault{ID: "slow", Kind: Hang, Operation: "write"}))
	slot := map[string]string{}
	s, err := m.Spec()
	require.NoError(t, err)
	for _, n := range s.NICs {
		slot[n.Key] = n.Slot + ".0"
	}
	cmd := exec.Command(filepath.Join(m.ToolPath(), "mstflint"), "-d", slot[key], "-i", image(t, key, version), "-y", "b")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	eventually(t, func() bool { return device(t, m, key).Torn }, "the burn begins")
	return cmd
}

func TestScopeOutlivesItsPod(t *testing.T) {
	m := newMachine(t)
	safe, doomed := burning(t, m, "nic0", newCX6), burning(t, m, "nic1", "28.41.1000")
	made := run(m, newScope("burn.scope", safe.Process.Pid)...)
	require.Zero(t, made.code, made.stderr)
	assert.Equal(t, output{stdout: "o \"/org/freedesktop/systemd1/unit/burn_2escope\"\n"}, unitOf(m, safe.Process.Pid))
	assert.NotContains(t, unitOf(m, doomed.Process.Pid).stdout, "burn")

	require.NoError(t, m.KillPod(doomed.Process.Pid))
	scopes, err := m.Scopes()
	require.NoError(t, err)
	require.Len(t, scopes, 1)
	assert.Equal(t, []int{safe.Process.Pid}, scopes[0].Live)
	require.NoError(t, m.ClearFaults())
	require.NoError(t, safe.Wait())
	assert.False(t, device(t, m, "nic0").Torn)
	assert.True(t, device(t, m, "nic1").Torn)
	scopes, err = m.Scopes()
	require.NoError(t, err)
	assert.Empty(t, scopes[0].Live)
}

func TestARebootWaitsForScopes(t *testing.T) {
	m := newMachine(t)
	burn := burning(t, m, "nic0", newCX6)
	require.Zero(t, run(m, newScope("burn.scope", burn.Process.Pid)...).code)
	require.Zero(t, run(m, "systemctl", "reboot").code)
	event, err := m.PowerEvent()
	require.NoError(t, err)
	assert.Equal(t, NoPowerEvent, event)
	require.NoError(t, m.ClearFaults())
	require.NoError(t, burn.Wait())
	event, err = m.PowerEvent()
	require.NoError(t, err)
	assert.Equal(t, RebootRequested, event)

	burn = burning(t, m, "nic0", "22.42.1000")
	require.Zero(t, run(m, newScope("second.scope", burn.Process.Pid)...).code)
	require.NoError(t, m.Boot(), "a boot ends everything")
	assert.Error(t, burn.Wait())
	scopes, err := m.Scopes()
	require.NoError(t, err)
	assert.Empty(t, scopes)
}

func TestAnInhibitorRefusesAReboot(t *testing.T) {
	m := newMachine(t)
	cmd := exec.Command(filepath.Join(m.ToolPath(), "systemd-inhibit"),
		"--what=shutdown:sleep", "--mode=block", "--who=a test", "--why=it says so", "cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	_, err = in.Write([]byte("\n"))
	require.NoError(t, err)
	_, err = io.ReadFull(out, make([]byte, 1))
	require.NoError(t, err, "it echoes when it holds")
	held, err := m.Inhibitors()
	require.NoError(t, err)
	assert.Equal(t, []Inhibitor{{PID: cmd.Process.Pid, What: "shutdown:sleep", Who: "a test", Why: "it says so", Mode: "block"}}, held)
	assert.Equal(t, output{1, "", "Call to Reboot failed: Operation denied due to active block inhibitor\n"}, run(m, "systemctl", "reboot"))

	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	held, err = m.Inhibitors()
	require.NoError(t, err)
	assert.Empty(t, held)
	assert.Zero(t, run(m, "systemctl", "reboot").code)
}

func TestSystemdRefusesUnknown(t *testing.T) {
	m := newMachine(t)
	burn := burning(t, m, "nic0", newCX6)
	pid := burn.Process.Pid
	manager := []string{"busctl", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"}
	for name, argv := range map[string][]string{
		"another service":     {"busctl", "call", "org.example", "/", "org.example", "GetUnitByPID", "u", "1"},
		"another method":      append(manager[:5:5], "Reboot"),
		"an unknown property": append(manager[:5:5], "StartTransientUnit", "ssa(sv)a(sa(sv))", "a.scope", "fail", "1", "Colour", "s", "red", "0"),
		"another type":        append(manager[:5:5], "StartTransientUnit", "ssa(sv)a(sa(sv))", "a.scope", "fail", "1", "KillSignal", "s", "18", "0"),
		"another signature":   append(manager[:5:5], "StartTransientUnit", "ssa(sv)", "a.scope", "fail", "0", "0"),
		"no processes":        append(manager[:5:5], "StartTransientUnit", "ssa(sv)a(sa(sv))", "a.scope", "fail", "0", "0"),
		"no scope":            newScope("a.service", pid),
		"too much":            newScope("a.scope", pid, "more"),
		"nobody's process":    newScope("a.scope", 1<<22+1),
		"an unknown option":   {"systemd-inhibit", "--what=shutdown", "--mode=block", "--verbose", "cat"},
		"another command":     {"systemd-inhibit", "--what=shutdown", "--mode=block", "sleep", "1"},
		"another mode":        {"systemd-inhibit", "--what=shutdown", "--mode=hard", "cat"},
	} {
		out := run(m, argv...)
		assert.Equal(t, 1, out.code, name)
		assert.NotEmpty(t, out.stderr, name)
	}
	require.Zero(t, run(m, newScope("a.scope", pid)...).code)
	assert.Contains(t, run(m, newScope("a.scope", pid)...).stderr, "already loaded")
	require.NoError(t, m.SetFault(Fault{Kind: Fail, Operation: "scope", Stderr: "Call failed: Connection refused\n"}))
	assert.Contains(t, run(m, newScope("b.scope", pid)...).stderr, "Connection refused")
}
