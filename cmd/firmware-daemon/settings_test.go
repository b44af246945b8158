package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
)

// The program plans, applies and lists settings that a file declares, on a machine of its own.
func TestTheProgramAppliesDeclaredSettings(t *testing.T) {
	bin := t.TempDir()
	require.NoError(t, child.Build(bin, "firmware-daemon", "firmware-simtools"))
	m := newMachine(t, bin, 1)
	file := filepath.Join(t.TempDir(), "settings.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: nodefirmware.io/v1alpha1
kind: ConfigurationTemplate
metadata: {name: vfs}
spec:
  rules:
  - name: card
    selector: {class: NIC, boardIDs: [`+nic0PSID+`]}
    settings: {numVFs: 8}
`), 0o600))
	run := func(args ...string) string {
		out, err := exec.Command(filepath.Join(bin, "firmware-daemon"), append(args, m.local()...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	assert.Regexp(t, `numVFs +0 +8 +DeviceReset +vfs/card`, run("plan", "-f", file))
	applied := run("apply", "--soak=0s", "-f", file)
	assert.Regexp(t, `configure local-nic-\w+  Succeeded: its settings are stored`, applied)
	assert.Contains(t, applied, "preflight  Succeeded: every setting fits its device")
	assert.Contains(t, applied, "Succeeded: its settings are in force")
	assert.Regexp(t, `numVFs +8 +8 +0 +DeviceReset`, run("settings", "0000:3b:00.0"))
	assert.Contains(t, run("apply", "--soak=0s", "-f", file), "Nothing to do.")
}
