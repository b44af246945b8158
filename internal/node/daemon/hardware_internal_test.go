package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// A pod of the daemon sees the host read-only and has the directory mounted at its own path; a shell in a debugging pod sees
// the host alone, and a directory of its own at that path would be a lock that nobody else has.
func TestLocksAreInHostDirectory(t *testing.T) {
	host, container := t.TempDir(), t.TempDir()
	own := filepath.Join(container, "state")
	hosts := filepath.Join(host, own)
	require.NoError(t, os.MkdirAll(hosts, 0o700))
	assert.Equal(t, hosts, writesDir(sysfs.DirFS(host), own), "nothing is mounted")
	require.NoError(t, os.Mkdir(own, 0o700))
	assert.Equal(t, hosts, writesDir(sysfs.DirFS(host), own), "another directory is at the path")
	require.NoError(t, os.Remove(own))
	require.NoError(t, os.Symlink(hosts, own))
	assert.Equal(t, own, writesDir(sysfs.DirFS(host), own), "the same directory is mounted")
	assert.Equal(t, own, writesDir(sysfs.DirFS("/"), own), "on the host itself")
}
