package main_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
)

// R003-12, R003-19, R003-35, R003-52: a daemon whose steps cannot be ordered does not start, and says which; `steps` shows what run would do.
func TestStepPriorities(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, child.Build(dir, "firmware-daemon"))
	bin := filepath.Join(dir, "firmware-daemon")
	local := []string{"--host-root=/", "--state-dir=" + t.TempDir()}
	for setting, want := range map[string]string{
		"nic.flash=910":             "node.maintenance (900) must run before nic.flash (910)",
		"node.verify-inventory=400": "node.health and node.verify-inventory both have the priority 400",
		"nic.flsh=1":                "priority of nic.flsh: there is no such step",
		"nic.flash=10.5":            "the priority must be a whole number",
	} {
		for _, command := range [][]string{{"run", "--node-name=n1"}, {"steps"}} {
			out, err := exec.Command(bin, append(append(command, local...), "--step-priority="+setting)...).CombinedOutput()
			require.Error(t, err, setting)
			assert.Contains(t, string(out), want)
		}
	}
	out, err := exec.Command(bin, append([]string{"steps"}, append(local, "-o", "json", "--step-priority=disk.flash=0", "--step-priority=nic.flash=890")...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	var list struct {
		Steps []struct {
			Key      string
			Priority int
		}
	}
	require.NoError(t, json.Unmarshal(out, &list))
	priorities := map[string]int{}
	for _, s := range list.Steps {
		priorities[s.Key] = s.Priority
	}
	assert.Equal(t, 890, priorities["nic.flash"])
	assert.Contains(t, priorities, "disk.flash")
	assert.Zero(t, priorities["disk.flash"])

	examples, err := filepath.Abs("../../docs/examples/profiles")
	require.NoError(t, err)
	profiles := append(local, "--profile-dir="+examples)
	out, err = exec.Command(bin, append([]string{"steps", "--step-priority=storcli.storcli-health=970"}, profiles...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Regexp(t, `(?m)^storcli-health +storcli +970 +AtOnce +No +2m0s +storcli\.storcli-health$`, string(out))
	assert.Regexp(t, `(?m)^perccli-health +perccli +off `, string(out))
	out, err = exec.Command(bin, append([]string{"steps", "--step-priority=storcli.storcli-health=300"}, profiles...)...).CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "storcli.storcli-health (300) must run before node.release (300)")
}
