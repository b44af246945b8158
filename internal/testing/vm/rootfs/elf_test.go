package rootfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/rootfs"
)

func TestResolveFollowsLinksInsideTheRoot(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "lib/x"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "lib/x/ld-2.36.so"), nil, 0o600))
	require.NoError(t, os.Symlink("/lib/x/ld.so", filepath.Join(root, "ld")))
	require.NoError(t, os.Symlink("ld-2.36.so", filepath.Join(root, "lib/x/ld.so")))
	require.NoError(t, os.Symlink("loop", filepath.Join(root, "loop")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(root, "outside")))
	got, err := rootfs.Resolve(root, "ld")
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(root, "lib/x/ld-2.36.so"), got)
	_, err = rootfs.Resolve(root, "outside")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = rootfs.Resolve(root, "loop")
	require.ErrorContains(t, err, "too many")
}

// The machine that runs the tests has programs with libraries.
func TestLibrariesOfAProgramComeWithThoseTheyNeed(t *testing.T) {
	program, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Skip("this machine has no shell")
	}
	found, missing, err := rootfs.Libraries("/", []string{program})
	require.NoError(t, err)
	if len(found)+len(missing) == 0 {
		t.Skip("the shell of this machine is static")
	}
	_, missing, err = rootfs.Libraries(t.TempDir(), nil)
	require.NoError(t, err)
	assert.Empty(t, missing)

	alone := t.TempDir()
	raw, err := os.ReadFile(program)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(alone, "sh"), raw, 0o755)) //nolint:gosec // a program
	found, missing, err = rootfs.Libraries(alone, []string{"sh"})
	require.NoError(t, err)
	assert.Empty(t, found)
	assert.NotEmpty(t, missing, "what is nowhere below the root is named")
}
