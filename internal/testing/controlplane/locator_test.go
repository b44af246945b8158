package controlplane

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLocate(t *testing.T) {
	t.Run("a named directory wins over the cache", func(t *testing.T) {
		l := &Locator{Assets: t.TempDir(), CacheDir: t.TempDir()}
		fakePrograms(t, l.Assets)
		fakePrograms(t, l.builtDir())
		dir, err := l.Locate(t.Context())
		require.NoError(t, err)
		assert.Equal(t, l.Assets, dir)
	})
	t.Run("a named directory that lacks a program is an error", func(t *testing.T) {
		l := &Locator{Assets: t.TempDir(), CacheDir: t.TempDir()}
		fakePrograms(t, l.builtDir())
		_, err := l.Locate(t.Context())
		require.ErrorContains(t, err, "KUBEBUILDER_ASSETS")
		require.ErrorIs(t, err, os.ErrNotExist)
	})
	t.Run("a named directory is not taken for another release", func(t *testing.T) {
		l := &Locator{Assets: t.TempDir(), CacheDir: t.TempDir(), Release: Oldest()}
		fakePrograms(t, l.Assets)
		fakePrograms(t, l.builtDir())
		_, err := l.Locate(t.Context())
		require.ErrorContains(t, err, "KUBEBUILDER_ASSETS")
		require.ErrorContains(t, err, "v1.32.")
	})
	t.Run("each release has its own place in the cache", func(t *testing.T) {
		l := &Locator{CacheDir: t.TempDir()}
		fakePrograms(t, l.builtDir())
		old := &Locator{CacheDir: l.CacheDir, Release: Oldest()}
		_, err := old.Locate(t.Context())
		require.ErrorContains(t, err, "no checkout to build them from")
		fakePrograms(t, old.builtDir())
		for _, each := range []*Locator{l, old} {
			dir, err := each.Locate(t.Context())
			require.NoError(t, err)
			assert.Equal(t, each.builtDir(), dir)
		}
		assert.NotEqual(t, l.builtDir(), old.builtDir())
		assert.NotEqual(t, l.downloadedDir(), old.downloadedDir())
	})
	t.Run("what was built is used without a word", func(t *testing.T) {
		var said strings.Builder
		l := &Locator{CacheDir: t.TempDir(), Progress: &said}
		fakePrograms(t, l.builtDir())
		dir, err := l.Locate(t.Context())
		require.NoError(t, err)
		assert.Equal(t, l.builtDir(), dir)
		assert.Empty(t, said.String())
	})
	t.Run("a half-filled directory of the cache is not used", func(t *testing.T) {
		l := &Locator{CacheDir: t.TempDir()}
		fakePrograms(t, l.builtDir())
		require.NoError(t, os.Remove(filepath.Join(l.builtDir(), etcdBinary)))
		_, err := l.Locate(t.Context())
		require.ErrorContains(t, err, "no checkout to build them from")
	})
}

// TestLocateWaits: of two runs that need the programs at the same time one waits, says so, and uses what the other made.
func TestLocateWaits(t *testing.T) {
	said := &lines{}
	l := &Locator{CacheDir: t.TempDir(), ModuleRoot: t.TempDir(), Progress: said}
	unlock, err := l.lock(t.Context())
	require.NoError(t, err)

	found := make(chan string, 1)
	go func() {
		dir, err := l.Locate(context.WithoutCancel(t.Context()))
		assert.NoError(t, err)
		found <- dir
	}()
	require.Eventually(t, func() bool { return strings.Contains(said.String(), "waiting for it") },
		time.Minute, 10*time.Millisecond)
	fakePrograms(t, l.builtDir())
	unlock()
	assert.Equal(t, l.builtDir(), <-found)
}

func TestLocateStopsWithContext(t *testing.T) {
	l := &Locator{CacheDir: t.TempDir(), ModuleRoot: t.TempDir(), Progress: &lines{}}
	unlock, err := l.lock(t.Context())
	require.NoError(t, err)
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Locate(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestLocateSaysHowToGetModules(t *testing.T) {
	l := &Locator{CacheDir: t.TempDir(), ModuleRoot: t.TempDir(), Progress: &lines{}}
	require.NoError(t, os.Mkdir(filepath.Join(l.CacheDir, "build-of-a-killed-run"), 0o755))
	_, err := l.Locate(t.Context())
	require.ErrorContains(t, err, "KUBEBUILDER_ASSETS")
	entries, err := os.ReadDir(l.CacheDir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "only the lock may stay: %v", entries)
}

func TestCheckVersions(t *testing.T) {
	dir := t.TempDir()
	fakePrograms(t, dir)
	require.NoError(t, checkVersions(t.Context(), dir, KubernetesVersion, EtcdVersion))
	require.ErrorContains(t, checkVersions(t.Context(), dir, "v1.35.0", EtcdVersion), "kube-apiserver")
	require.ErrorContains(t, checkVersions(t.Context(), dir, KubernetesVersion, "v3.6.0"), "etcd")
}

func TestGoEnvironmentDropsTheCallersBuildSettings(t *testing.T) {
	env := goEnvironment([]string{"GOFLAGS=-mod=vendor", "GOOS=plan9", "GOWORK=/x/go.work", "GOPROXY=p", "HOME=/h"})
	assert.ElementsMatch(t, []string{"GOPROXY=p", "HOME=/h", "GOFLAGS=-mod=readonly", "GOWORK=off", "CGO_ENABLED=0"}, env)
}

func TestStampsProgramsWithRelease(t *testing.T) {
	p := kubernetes(apiServerBinary, "").of(Oldest())
	assert.Equal(t, OldestKubernetesVersion, p.version)
	assert.Contains(t, p.ldflags, "gitVersion="+OldestKubernetesVersion)
	assert.Contains(t, p.ldflags, "gitMinor=32")
	assert.Equal(t, KubernetesVersion, kubernetes(apiServerBinary, "").of(Release{}).version)
	assert.Equal(t, Containerd, Containerd.of(Oldest()), "it is no part of Kubernetes")
}

func TestParseRelease(t *testing.T) {
	for name, want := range map[string]Release{"": Newest(), "newest": Newest(), "oldest": Oldest()} {
		got, err := ParseRelease(name)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := ParseRelease("1.33")
	require.ErrorContains(t, err, "want newest or oldest")
}

// TestVersionsMatchTheModules: the versions in the code are those the modules of hack/ would be built at.
func TestVersionsMatchTheModules(t *testing.T) {
	root := ModuleRoot()
	require.NotEmpty(t, root)
	for file, want := range map[string]string{
		Newest().modules + "/go.mod":    "k8s.io/kubernetes " + KubernetesVersion,
		Oldest().modules + "/go.mod":    "k8s.io/kubernetes " + OldestKubernetesVersion,
		"hack/controlplane/etcd/go.mod": "go.etcd.io/etcd/server/v3 " + EtcdVersion,
		// What is promised is what is tested.
		"docs/install.md": "| Kubernetes | " + Oldest().minor() + " or later.",
	} {
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		assert.Contains(t, string(text), want)
	}
	assert.Equal(t, "1.36", Release{}.minor())
}

// fakePrograms puts scripts in dir that answer --version as the real programs do.
func fakePrograms(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for name, version := range map[string]string{
		apiServerBinary: "Kubernetes " + KubernetesVersion,
		etcdBinary:      "etcd Version: " + strings.TrimPrefix(EtcdVersion, "v"),
	} {
		script := "#!/bin/sh\necho '" + version + "'\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755))
	}
}

// lines is a writer that may be read while it is written to.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
