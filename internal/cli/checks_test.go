package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
)

// TestApplyRunsMachineChecks proves R002-14.
func TestApplyRunsMachineChecks(t *testing.T) {
	s := newStage(t)
	ran := filepath.Join(s.dir, "ran")
	for name, body := range map[string]string{
		"required.d/10-runs":  "echo once >> " + ran,
		"wanted.d/10-advises": "echo the fan is slow; exit 1",
	} {
		file := filepath.Join(s.Dir(), "etc/node-firmware/check", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+body+"\n"), 0o755)) //nolint:gosec // an executable
	}
	var steps, advice bytes.Buffer
	a := s.applying(t, &steps)
	a.Checks = &health.Checks{
		FS: s.hardware.FS, Runner: s.hardware.Runner, Launch: health.Launch(s.Dir()),
		Advise: func(a health.Advice) { fmt.Fprintln(&advice, a.Message) },
	}
	_, err := cli.Apply(t.Context(), a)
	require.ErrorIs(t, err, cli.ErrRebootPending)
	assert.Empty(t, advice.String(), "nothing is judged before the reboot")
	require.NoError(t, s.Boot())
	out, err := cli.Apply(t.Context(), a)
	require.NoError(t, err, "%s", &steps)
	assert.Equal(t, "Complete", out.Result)
	text, err := os.ReadFile(ran)
	require.NoError(t, err)
	assert.Equal(t, 2, bytes.Count(text, []byte("once")), "before anything was changed, and as the judge of it")
	assert.Equal(t, "check wanted.d/10-advises failed (exit code 1): the fan is slow; the check is advisory and nothing is done about it\n", advice.String())
}
