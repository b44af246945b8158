package guard

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable/durabletest"
)

// in is the guard of the host in a directory, which no kubelet starts.
func in(t *testing.T, dir string, fake fakeHost) Host {
	t.Helper()
	pod := daemonPod(t)
	return Host{
		Proc: fake.proc, Root: filepath.Join(dir, "root"), StateDir: filepath.Join(dir, "state"), ProfileDir: filepath.Join(dir, "profiles"), KeysDir: filepath.Join(dir, "keys"),
		Own: func(context.Context) (*corev1.Pod, error) { return pod, nil }, Patience: time.Nanosecond,
	}
}

func newDir(t *testing.T) (string, fakeHost) {
	t.Helper()
	dir := t.TempDir()
	fake := newHost(t, dir)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "state"), 0o700))
	write(t, filepath.Join(dir, "profiles/acme.yaml"), "name: acme\n")
	write(t, filepath.Join(dir, "keys/acme.pub"), "RW\n")
	return dir, fake
}

// left lists what of a guard is on the host.
func left(t *testing.T, dir string) (files []string) {
	t.Helper()
	for _, pattern := range []string{"root/etc/kubernetes/manifests/*", "root/etc/kubernetes/manifests/.*", "state/guard"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		files = append(files, found...)
	}
	return files
}

func manifestIn(dir string) string {
	return filepath.Join(dir, "root/etc/kubernetes/manifests", ManifestFile)
}

func TestGuardIsInstalledOnceItRunsAndLeavesNothingBehind(t *testing.T) {
	dir, fake := newDir(t)
	h := in(t, dir, fake)
	require.ErrorContains(t, h.Install(t.Context()), "the kubelet has not started the static pod node-firmware-guard within")
	first, err := os.ReadFile(manifestIn(dir))
	require.NoError(t, err, "it may still start")
	live, err := h.Live()
	require.NoError(t, err)
	require.NoError(t, h.Install(t.Context()))
	again, err := os.ReadFile(manifestIn(dir))
	require.NoError(t, err)
	assert.Equal(t, string(first), string(again), "what is there is kept, so that the kubelet does not start it anew")
	_, err = h.Live()
	require.ErrorContains(t, err, "another guard runs")
	copied, err := os.ReadFile(filepath.Join(dir, "state/guard/profiles/acme.yaml"))
	require.NoError(t, err)
	assert.Equal(t, "name: acme\n", string(copied))
	copied, err = os.ReadFile(filepath.Join(dir, "state/guard/keys/acme.pub"))
	require.NoError(t, err, "a guard that required signatures and had no key would restore nothing")
	assert.Equal(t, "RW\n", string(copied))

	itself := h
	itself.Own = nil
	require.NoError(t, itself.Install(t.Context()), "the guard's own engine finds itself")
	require.NoError(t, live.Close())
	require.NoError(t, h.Remove(t.Context()))
	assert.Empty(t, left(t, dir))
	require.NoError(t, h.Remove(t.Context()))
	require.ErrorContains(t, itself.Install(t.Context()), "the static pod of this guard is gone")
}

// The next static pod has another uid: the kubelet makes it of the content.
func TestEachStaticPodDiffers(t *testing.T) {
	dir, fake := newDir(t)
	h := in(t, dir, fake)
	require.Error(t, h.Install(t.Context()))
	first, err := os.ReadFile(manifestIn(dir))
	require.NoError(t, err)
	require.NoError(t, h.Remove(t.Context()))
	require.Error(t, h.Install(t.Context()))
	second, err := os.ReadFile(manifestIn(dir))
	require.NoError(t, err)
	assert.NotEqual(t, string(first), string(second))
}

func TestRemovesGuardOfLostState(t *testing.T) {
	dir, fake := newDir(t)
	h := in(t, dir, fake)
	require.Error(t, h.Install(t.Context()))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "state")))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "state"), 0o700))
	require.NoError(t, h.Remove(t.Context()))
	assert.Empty(t, left(t, dir))
}

// A kubelet that takes its static pods from elsewhere meanwhile does not hide the old one.
func TestRemovedFromWhereItWasPut(t *testing.T) {
	dir, fake := newDir(t)
	h := in(t, dir, fake)
	require.Error(t, h.Install(t.Context()))
	fake.file("/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\n")
	require.NoError(t, h.Remove(t.Context()))
	assert.Empty(t, left(t, dir))
}

func TestGuardThatCannotBeInstalledLeavesNothing(t *testing.T) {
	dir, fake := newDir(t)
	h := in(t, dir, fake)
	h.Own = func(context.Context) (*corev1.Pod, error) { return nil, errors.New("the API server does not answer") }
	require.ErrorContains(t, h.Install(t.Context()), "the API server does not answer")
	assert.Empty(t, left(t, dir))
}

// A daemon that was replaced in the middle of a job has a journal that the guard of the one before may not read.
func TestReplacesOtherVersionsGuard(t *testing.T) {
	dir, fake := newDir(t)
	h := in(t, dir, fake)
	h.Version = "v1.0.0"
	require.Error(t, h.Install(t.Context()))
	first, err := os.ReadFile(manifestIn(dir))
	require.NoError(t, err)

	h.Version = "v2.0.0"
	itself := h
	itself.Own = nil
	require.ErrorContains(t, itself.Install(t.Context()), "its log says why", "a guard has no other")
	own := h.Own
	h.Own = func(context.Context) (*corev1.Pod, error) { return nil, errors.New("the API server does not answer") }
	require.ErrorContains(t, h.Install(t.Context()), "the API server does not answer")
	kept, err := os.ReadFile(manifestIn(dir))
	require.NoError(t, err, "until there is a new one the old one stays")
	assert.Equal(t, string(first), string(kept))
	h.Own = own
	require.Error(t, h.Install(t.Context()))
	second, err := os.ReadFile(manifestIn(dir))
	require.NoError(t, err)
	assert.NotEqual(t, string(first), string(second))
}

// Behind a proxy that only the kubelet knows, a guard would take each API server for one that is away.
func TestNoGuardIsInstalledThatCannotReachTheAPIServer(t *testing.T) {
	dir, fake := newDir(t)
	h := in(t, dir, fake)
	asked := ""
	h.Ask = func(_ context.Context, server string) error { asked = server; return errors.New("no route to host") }
	require.ErrorContains(t, h.Install(t.Context()), "no route to host")
	assert.Equal(t, "https://10.0.0.1:6443", asked)
	assert.Empty(t, left(t, dir))
}

func TestNoGuardIsInstalledThatIsGoneAfterTheReboot(t *testing.T) {
	memory, err := os.MkdirTemp("/dev/shm", "guard") //nolint:usetesting // it has to be on a file system in memory
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(memory) })
	dir, _ := newDir(t)
	h := in(t, dir, newHost(t, memory))
	h.Root = filepath.Join(memory, "root")
	var there, here syscall.Stat_t
	require.NoError(t, errors.Join(syscall.Stat(memory, &there), syscall.Stat(dir, &here)))
	if there.Dev == here.Dev {
		t.Skip("the state directory of this test is in memory too")
	}
	require.ErrorContains(t, h.Install(t.Context()), "/etc/kubernetes/manifests is in memory")
	assert.NoFileExists(t, manifestIn(memory))
	assert.NoFileExists(t, filepath.Join(dir, "state", Dir))
}

// readOnly is a file system on which nothing can be removed. The kernel says so before it looks for the file.
type readOnly struct{ durable.OS }

func (readOnly) Remove(string) error { return syscall.EROFS }

func TestNothingIsToBeRemovedFromADirectoryThatIsReadOnlyAndEmpty(t *testing.T) {
	dir, fake := newDir(t)
	h := in(t, dir, fake)
	h.FS = readOnly{}
	require.NoError(t, h.Remove(t.Context()))
	write(t, manifestIn(dir), "kind: Pod\n")
	require.ErrorIs(t, h.Remove(t.Context()), syscall.EROFS)
}

// cuts are how often one moment is cut.
const cuts = 6

// Whenever the power fails, a static pod on the disk is whole and can be removed by the next daemon, and a removed one does not
// come back (R002-33).
func TestPowerCutAnywhereLeavesAGuardThatCanBeRemoved(t *testing.T) {
	act := map[string]func(Host) error{
		"install": func(h Host) error { return h.Install(t.Context()) },
		"remove": func(h Host) error {
			_ = h.Install(t.Context())
			return h.Remove(t.Context())
		},
	}
	for name, do := range act {
		t.Run(name, func(t *testing.T) {
			for at, operations := 0, 1; at <= operations; at++ {
				dir, fake := newDir(t)
				fsys, err := durabletest.New(dir)
				require.NoError(t, err)
				h := in(t, dir, fake)
				h.FS = fsys
				fsys.CutAt(at)
				err = do(h)
				operations = max(operations, fsys.Operations())
				random := rand.New(rand.NewPCG(uint64(at), 3)) //nolint:gosec // any number does
				for range cuts {
					to := t.TempDir()
					require.NoError(t, fsys.Cut(random, to))
					after := in(t, to, fake)
					text, readErr := os.ReadFile(manifestIn(to))
					if readErr == nil {
						assert.Equal(t, podName, read(t, text).Name, "cut at %d", at)
						assert.FileExists(t, filepath.Join(to, "state/guard", profiles, "acme.yaml"), "cut at %d", at)
						assert.FileExists(t, filepath.Join(to, "state/guard", keys, "acme.pub"), "cut at %d", at)
					}
					if name == "remove" && err == nil {
						assert.Empty(t, left(t, to), "cut at %d: what was removed stays so", at)
					}
					// The marker alone must lead to the static pod.
					after.Proc = t.TempDir()
					require.NoError(t, after.Remove(t.Context()), "cut at %d", at)
					assert.Empty(t, left(t, to), "cut at %d", at)
				}
			}
		})
	}
}
