package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/toolcontract"
)

// imageVariable names an archive of the daemon's image, which `make images` writes.
const imageVariable = "DAEMON_IMAGE"

// worldDir is where the files of the cases are: where the daemon keeps images.
const worldDir = "/var/lib/node-firmware/images"

// inImage is the pod of the shipped manifest with the image.
func inImage(t *testing.T) (p pod, w toolcontract.World) {
	t.Helper()
	path := os.Getenv(imageVariable)
	if path == "" {
		t.Skip("no image: set " + imageVariable + " to an archive of the daemon's (make images-check does, after make images)")
	}
	require.Zero(t, os.Geteuid(), "the mounts of a pod need root: run it as root")
	a, err := openArchive(path)
	require.NoError(t, err)
	defer a.close()
	c, err := a.runConfig()
	require.NoError(t, err)
	require.Equal(t, "0:0", c.User)
	files, host := t.TempDir(), t.TempDir()
	require.NoError(t, a.unpack(files))
	p = podOf(t, shippedDaemon(t).Spec.Template.Spec, files, host)
	p.Env = append(p.Env, "PATH="+config.DefaultToolPath) // as package command gives it to tools
	require.NoError(t, os.MkdirAll(filepath.Join(host, worldDir), 0o700))
	w, err = toolcontract.NewWorld(filepath.Join(host, worldDir), worldDir)
	require.NoError(t, err)
	w.Recordings = filepath.Join(root, "internal/testing/toolcontract/testdata")
	return p, w
}

// Every command line of the drivers, in the image, with the mounts, the read-only root and the environment of the shipped manifest:
// what needs a device ends in the tool's own "no such device".
func TestEveryCommandLineInTheImage(t *testing.T) {
	p, w := inImage(t)
	run := toolcontract.Exec(p.prefix(t)...)
	for _, tool := range toolcontract.Tools() {
		t.Run(tool.Name, func(t *testing.T) { toolcontract.CheckReal(t, tool, w, run, true) })
	}
	t.Run("firmware-devlink", func(t *testing.T) {
		own := func(ctx context.Context, argv, env []string) (toolcontract.Answer, error) {
			return run(ctx, append([]string{"firmware-daemon", "tool"}, argv...), env)
		}
		var on []toolcontract.Condition
		if a, err := own(t.Context(), []string{"firmware-devlink", "activate", "pci/" + toolcontract.Absent}, nil); err == nil &&
			strings.Contains(a.Stderr, "built without devlink") {
			on = append(on, toolcontract.NoDevlink)
		}
		toolcontract.CheckOwn(t, toolcontract.Devlink(), w, own, on...)
	})
	t.Run("the daemon finds its tools supported", func(t *testing.T) {
		a, err := run(t.Context(), []string{"firmware-daemon", "discover", "--host-root=/host", "-o", "json"}, nil)
		require.NoError(t, err)
		assert.NotContains(t, a.Stderr, "is not a tested version")
		assert.Zero(t, a.Exit, a.Stderr)
	})
	t.Run("the root is read-only", func(t *testing.T) {
		a, err := run(t.Context(), []string{"touch", "/usr/written"}, nil)
		require.NoError(t, err)
		assert.Contains(t, a.Stderr, "Read-only file system")
		assert.NoFileExists(t, filepath.Join(p.Root, "usr/written"))
	})
}

// The contract notices what the manifest must not lose: without the mount for locks fwupdtool cannot work.
func TestAMountThatIsMissingIsNoticed(t *testing.T) {
	p, w := inImage(t)
	p.Mounts = slices.DeleteFunc(p.Mounts, func(m mount) bool { return m.Target == "/run/lock" })
	records, err := toolcontract.Fwupdtool().Run(t.Context(), w, toolcontract.Exec(p.prefix(t)...))
	require.NoError(t, err)
	complaints := 0
	for _, r := range records {
		complaints += len(r.Complaints(nil))
	}
	assert.Greater(t, complaints, 5)
}

func TestAMountDoesNotLeaveTheImage(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "var/lib"), 0o755))
	require.NoError(t, os.Symlink("/run", filepath.Join(root, "var/run")))
	require.NoError(t, os.Symlink("../../../../etc", filepath.Join(root, "var/lib/up")))
	for path, want := range map[string]string{
		"/var/run/ca/x": "run/ca/x", "/var/lib/up/y": "etc/y", "/var/lib/z": "var/lib/z", "/tmp": "tmp",
	} {
		assert.Equal(t, filepath.Join(root, want), inside(root, path))
	}
}

// The manifest is read, and not repeated: what is mounted here is what it says.
func TestTestedPodIsShippedPod(t *testing.T) {
	p := podOf(t, shippedDaemon(t).Spec.Template.Spec, t.TempDir(), t.TempDir())
	assert.True(t, p.ReadOnly)
	var writable, readOnly []string
	for _, m := range p.Mounts {
		if m.ReadOnly {
			readOnly = append(readOnly, m.Target)
		} else {
			writable = append(writable, m.Target)
		}
	}
	assert.Contains(t, readOnly, "/host")
	for _, dir := range []string{"/run/lock", "/tmp", "/var/lib/fwupd", "/var/cache", "/boot", "/var/lib/node-firmware", "/dev", "/sys", "/host/sys"} {
		assert.Contains(t, writable, dir)
	}
	for _, m := range p.Mounts {
		own := strings.HasPrefix(m.Source, os.TempDir()) || slices.Contains([]string{"/dev", "/sys", "/proc"}, m.Source)
		assert.True(t, own, "%s is of this machine", m.Source)
	}
}
