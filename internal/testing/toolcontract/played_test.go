package toolcontract_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/toolcontract"
)

// playedCard is the function that the played card has on the simulated machine.
const playedCard = "0000:3b:00.0"

// resetSources is where the Python files of the installed mstfwreset are; the test is skipped where they are not.
func resetSources(t *testing.T) string {
	found, err := filepath.Glob("/usr/lib*/*/mstflint/python_tools/mstfwreset/mstfwreset.py")
	require.NoError(t, err)
	if _, err := exec.LookPath("python3"); err != nil || len(found) == 0 || os.Geteuid() != 0 {
		t.Skip("mstfwreset in Python, python3 and root are needed: the simulated mstfwreset is not compared with the real one's own code here")
	}
	version, err := toolcontract.Mstfwreset().VersionOf(t.Context(), toolcontract.Exec())
	require.NoError(t, err)
	if version != simulatedVersion {
		t.Skipf("mstfwreset %s is installed and %s is simulated: their words differ", version, simulatedVersion)
	}
	return filepath.Dir(found[0])
}

// simulatedVersion is the version of mstflint that simhost plays.
const simulatedVersion = "4.21.0"

// programs is a directory with what mstfwreset runs: a mstmcra that identifies a ConnectX-6 Dx, and scripts by name.
func programs(t *testing.T, scripts map[string]string) string {
	dir := t.TempDir()
	for _, name := range []string{"find", "grep", "sed", "readlink", "uname"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(dir, name)))
	}
	scripts["mstmcra"] = "echo 0x212"
	for name, line := range scripts {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+line+"\n"), 0o700))
	}
	return dir
}

// The real tool's own code, on a card that is played, prints what the simulated tool prints, and does the same to the virtual
// functions: it removes them before it notices what keeps it from going on.
func TestSimulatedResetMatchesTool(t *testing.T) {
	sources := resetSources(t)
	for name, c := range map[string]struct {
		change  func(*simhost.Spec)
		without []string
		scripts map[string]string
		args    []string
		vfs     string
	}{
		"query":                        {args: []string{"q"}, vfs: "4"},
		"query of a card that reboots": {change: func(s *simhost.Spec) { s.NICs[0].Activation = simhost.Reboot }, args: []string{"q"}, vfs: "4"},
		"no setpci":                    {without: []string{"setpci"}, args: []string{"-l", "3", "-y", "r"}, vfs: "0"},
		"no setpci, without a level":   {without: []string{"setpci"}, args: []string{"-y", "r"}, vfs: "0"},
		"another kernel driver": {
			change: func(s *simhost.Spec) { s.NICs[0].Foreign = "vfio-pci" }, args: []string{"-l", "3", "-y", "r"}, vfs: "0",
		},
		"a live patch":                {change: func(s *simhost.Spec) { s.NICs[0].LivePatch = true }, args: []string{"-l", "0", "-y", "r"}, vfs: "4"},
		"a level that is not offered": {args: []string{"-l", "0", "-y", "r"}, vfs: "4"},
		"a type that is not offered":  {args: []string{"-l", "3", "-t", "1", "-y", "r"}, vfs: "4"},
		"nobody says yes":             {args: []string{"-l", "3", "r"}, vfs: "4"},
		"a virtual machine": {
			change:  func(s *simhost.Spec) { s.Virtual = true },
			scripts: map[string]string{"lscpu": "echo 'Hypervisor vendor: KVM'"}, args: []string{"-l", "3", "-y", "r"}, vfs: "4",
		},
		"Secure Boot": {
			change:  func(s *simhost.Spec) { s.SecureBoot = true },
			scripts: map[string]string{"mokutil": "echo SecureBoot enabled"}, args: []string{"-l", "3", "-y", "r"}, vfs: "4",
		},
		"reset of the state machine": {args: []string{"reset_fsm_register"}, vfs: "4"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := simhost.DefaultSpec("played", 0)
			spec.NICs[0].VFs = 4
			spec.WriteTime, spec.ResetTime = 0, 0
			if c.change != nil {
				c.change(&spec)
			}
			scripts := map[string]string{}
			for tool, line := range c.scripts {
				scripts[tool] = line
			}
			args := append([]string{"-d", playedCard}, c.args...)

			played := machine(t, spec)
			argv := append([]string{"testdata/mstfwreset_on_a_played_card.py", sources, played.Dir(), programs(t, scripts), levelsOf(spec.NICs[0])}, args...)
			cmd := exec.CommandContext(t.Context(), "python3", argv...)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "PYTHONDONTWRITEBYTECODE=1"}
			real, err := toolcontract.Finish(t.Context(), cmd)
			require.NoError(t, err, real.Stderr)

			m := machine(t, spec)
			for _, tool := range c.without {
				require.NoError(t, os.Remove(filepath.Join(m.ToolPath(), tool)))
			}
			cmd = exec.CommandContext(t.Context(), filepath.Join(m.ToolPath(), "mstfwreset"), args...)
			cmd.Env = []string{"PATH=" + m.ToolPath(), "LC_ALL=C", "HOME=/"}
			simulated, err := toolcontract.Finish(t.Context(), cmd)
			require.NoError(t, err)

			assert.Equal(t, real, simulated)
			assert.Equal(t, c.vfs, virtualFunctions(t, played), "on the played card")
			assert.Equal(t, c.vfs, virtualFunctions(t, m), "on the simulated card")
		})
	}
}

// levelsOf is the mask of the resets that a card offers.
func levelsOf(n simhost.NIC) string {
	mask := 0x40
	if n.LivePatch {
		mask |= 0x1
	}
	if n.Activation == simhost.DeviceReset {
		mask |= 0x8
	}
	return strconv.Itoa(mask)
}

func virtualFunctions(t *testing.T, m *simhost.Machine) string {
	content, err := os.ReadFile(filepath.Join(m.Dir(), "sys/bus/pci/devices", playedCard, "sriov_numvfs"))
	require.NoError(t, err)
	return strings.TrimSpace(string(content))
}
