package rootfs

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const control = `Package: sg3-utils
Version: 1.46-3
Depends: libc6 (>= 2.34), libsgutils2-1.46-2 (>= 1.46) | other, perl:any
Pre-Depends: zlib1g
Description: utilities
 Depends: nothing

Package: libc6
Version: 2.36-9
`

func TestReadsControlData(t *testing.T) {
	assert.Equal(t, []Package{
		{Name: "sg3-utils", Version: "1.46-3", Depends: []string{"libc6", "libsgutils2-1.46-2", "perl", "zlib1g"}},
		{Name: "libc6", Version: "2.36-9"},
	}, parsePackages([]byte(control)))
	assert.Empty(t, parsePackages(nil))
	assert.Equal(t, "sg3-utils=1.46-3", parsePackages([]byte(control))[0].Spec())
}

func FuzzParsePackages(f *testing.F) {
	f.Add([]byte(control))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, p := range parsePackages(raw) {
			assert.NotEmpty(t, p.Name)
			assert.NotEmpty(t, p.Version)
			assert.NotContains(t, p.Depends, "")
		}
	})
}

// mmdebstrap starts others and mounts file systems. Killed alone, it leaves both behind.
func TestAsksProgramTreeToEnd(t *testing.T) {
	dir := t.TempDir()
	started, ended := filepath.Join(dir, "started"), filepath.Join(dir, "ended")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	// The child writes that it was asked; the parent waits for it.
	c := command(ctx, "bash", "-c", `trap 'wait; exit 3' TERM; (trap 'echo asked >"$2"; exit' TERM; : >"$1"; sleep 300 & wait) & wait`, "bash", started, ended)
	require.NoError(t, c.Start())
	require.Eventually(t, func() bool { _, err := os.Stat(started); return err == nil }, time.Minute, 10*time.Millisecond)
	stop()
	require.Error(t, c.Wait())
	assert.FileExists(t, ended)
	assert.Equal(t, 3, c.ProcessState.ExitCode(), "it ended in order")
}
