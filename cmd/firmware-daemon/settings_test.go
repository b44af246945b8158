package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// The program changes settings of system firmware by a vendor's tool that a profile describes, whatever the tool tells before the boot: what is in force, what
// the boot brings, or both.
func TestTheProgramAppliesSettingsOfAProfile(t *testing.T) {
	bin := t.TempDir()
	require.NoError(t, child.Build(bin, "firmware-daemon", "firmware-simtools"))
	for i, listing := range []string{
		"'Turbo=(?P<current>.*) then (?P<next>.*)'", "'Turbo=.* then (?P<next>.*)'", "'Turbo=(?P<current>.*) then .*'",
	} {
		m, dir := newMachine(t, bin, i+1), t.TempDir()
		running, stored := filepath.Join(dir, "running"), filepath.Join(dir, "stored")
		for file, text := range map[string]string{
			running: "Max Power", stored: "Max Power",
			filepath.Join(m.ToolPath(), "acmecfg"): "#!/bin/sh\ncase $1 in\nversion) echo version 1;;\n" +
				"show) echo \"Turbo=$(/bin/cat " + running + ") then $(/bin/cat " + stored + ")\";;\nset) printf %s \"$3\" > " + stored + ";;\nesac\n",
			filepath.Join(dir, "acme.yaml"): `
name: acme-bios
version: "1"
match: {class: BIOS, support: Vendor, vendors: [Lenovo]}
inspect: {argv: [acmecfg, version], exits: {ok: [0]}, format: regex, fields: {running: {pattern: 'version (.)'}}}
readOnly: it is a test
settings:
  activation: Reboot
  read:
  - {argv: [acmecfg, show], exits: {ok: [0]}, line: ` + strings.Replace(listing, "Turbo", "(?P<name>Turbo)", 1) + `}
  set: {argv: [acmecfg, set, "{{setting.name}}", "{{setting.value}}"], exits: {ok: [0]}, timeout: 1m}
`,
			filepath.Join(dir, "template"): `
apiVersion: nodefirmware.io/v1alpha1
kind: ConfigurationTemplate
metadata: {name: turbo}
spec:
  rules:
  - name: bios
    selector: {class: BIOS, vendor: any}
    parameters: [{name: Turbo, value: Max Efficiency}]
`,
		} {
			require.NoError(t, os.WriteFile(file, []byte(text), 0o700))
		}
		apply := func() (string, error) {
			args := append([]string{"apply", "--soak=0s", "-f", filepath.Join(dir, "template"), "--profile-dir=" + dir}, m.local()...)
			out, err := exec.Command(filepath.Join(bin, "firmware-daemon"), args...).CombinedOutput()
			return string(out), err
		}
		out, err := apply()
		require.ErrorContains(t, err, "exit status 3", out)
		text, err := os.ReadFile(stored)
		require.NoError(t, err)
		require.Equal(t, "Max Efficiency", string(text))
		require.NoError(t, os.WriteFile(running, text, 0o600))
		require.NoError(t, m.Boot())
		out, err = apply()
		require.NoError(t, err, out)
		assert.Contains(t, out, "Succeeded: its settings are in force", listing)
		out, err = apply()
		require.NoError(t, err, out)
		assert.Contains(t, out, "Nothing to do.", listing)
	}
}
