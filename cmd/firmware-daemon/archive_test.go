package main_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
)

// A disk that was copied brings the archive of another machine along, which the commands leave alone as the daemon does.
func TestForeignArchive(t *testing.T) {
	bin := t.TempDir()
	require.NoError(t, child.Build(bin, "firmware-daemon", "firmware-simtools"))
	for _, command := range []string{"pin", "unpin", "restore", "backup"} {
		t.Run(command, func(t *testing.T) {
			m := newMachine(t, bin, 1)
			other, err := state.Open(m.stateDir(), state.Options{Daemon: version.Current(), Machine: state.Machine{UUID: "4c4c4544-0042-3010-8051-b4c04f4a3232"}})
			require.NoError(t, err)
			require.NoError(t, other.Close())
			out, err := exec.Command(filepath.Join(bin, "firmware-daemon"), slices.Concat([]string{"archive", command}, m.local(), []string{"94:6d:ae:00:00:10/x_y"})...).CombinedOutput()
			require.Error(t, err)
			assert.Contains(t, string(out), "The state directory is of another machine")
			found, err := state.Inspect(m.stateDir())
			require.NoError(t, err)
			assert.Len(t, found.Foreign, 1)
		})
	}
}
