package rootfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/rootfs"
)

func TestFollowsLinksInsideRoot(t *testing.T) {
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

// The machine that runs the tests has programs with libraries, and a linker that lists them.
func TestLibrariesOfAProgramComeWithThoseTheyNeed(t *testing.T) {
	const linker = "lib64/ld-linux-x86-64.so.2"
	root := t.TempDir()
	take := func(from, to string) {
		raw, err := os.ReadFile(from)
		if err != nil {
			t.Skipf("this machine has no %s", from)
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, to)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, to), raw, 0o755)) //nolint:gosec // a program
	}
	take("/"+linker, linker)
	take("/bin/sh", "bin/sh")
	_, err := rootfs.Libraries(t.Context(), root, []string{"bin/sh"})
	require.ErrorContains(t, err, "libc.so.6", "what is nowhere below the root is named")
	take("/lib/x86_64-linux-gnu/libc.so.6", "lib/x86_64-linux-gnu/libc.so.6")
	found, err := rootfs.Libraries(t.Context(), root, []string{"bin/sh"})
	require.NoError(t, err)
	assert.Equal(t, []string{"lib/x86_64-linux-gnu/libc.so.6", linker}, found)
}
