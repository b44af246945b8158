package sysfs_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

// The kernel of the machine that runs the tests shows this process like any other.
func TestARunningProcessShowsWhatItHasOpen(t *testing.T) {
	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Skip("this machine has no /proc")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Symlink(dir, filepath.Join(dir, "link")))
	f, err := os.Create(filepath.Join(dir, "link", "db"))
	require.NoError(t, err)
	defer f.Close()
	found, err := sysfs.Processes(sysfs.DirFS("/"), strings.TrimSpace(string(name)))
	require.NoError(t, err)
	at := slices.IndexFunc(found, func(p sysfs.Process) bool { return slices.Contains(p.Files, filepath.Join(dir, "db")) })
	require.GreaterOrEqual(t, at, 0, "%v", found)
	assert.Equal(t, os.Args, found[at].Args)
	assert.NotEmpty(t, found[at].Mounts)
}

func TestFlagsOfAProcess(t *testing.T) {
	p := sysfs.Process{Args: strings.Fields("etcd --data-dir /a -data-dir=/b --data-dir= --data-dir-x=/c data-dir=/d --data-dir")}
	assert.Equal(t, []string{"/a", "/b", ""}, p.Flag("data-dir"))
	assert.Empty(t, p.Flag("wal-dir"))
}

func FuzzProcesses(f *testing.F) {
	f.Add("etcd\x00--data-dir=/a\x00", "1 2 8:1 / / rw - ext4 /dev/sda1 rw")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, commandLine, mounts string) {
		m := sysfstest.NewMachine()
		m.Files("proc/7", map[string]string{"comm": "etcd", "cmdline": commandLine, "mountinfo": mounts})
		found, err := sysfs.Processes(m, "etcd")
		if err == nil {
			require.Len(t, found, 1)
			assert.LessOrEqual(t, len(found[0].Flag("data-dir")), len(found[0].Args))
		}
	})
}
