package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gofrs/flock"
)

// Locator finds a directory that holds etcd and kube-apiserver, and creates one if there is none. It looks, in this
// order, at a directory the user names, at the user's cache, at what setup-envtest can download, and at the Go modules
// of Kubernetes and etcd, from which both programs are built.
type Locator struct {
	// Assets is a directory that the user names. It takes precedence; it is an error if it lacks a program.
	Assets string
	// Release is the version of kube-apiserver; the other programs are of the newest. A directory in Assets may hold any version, unless this is a release other than the newest.
	Release Release
	// CacheDir is where downloaded and built programs are kept.
	CacheDir string
	// ModuleRoot is the root of this project's checkout, where the module files of hack/ are. Empty if there is no
	// checkout; then nothing can be downloaded or built.
	ModuleRoot string
	// Progress receives progress messages. Nothing is written when the cache has everything.
	Progress io.Writer
}

// ReleaseVariable is the environment variable that chooses the release for the tests: "newest" or "oldest".
const ReleaseVariable = "CONTROLPLANE_RELEASE"

// NewLocator returns a Locator for this process: it takes Assets from KUBEBUILDER_ASSETS and Release from ReleaseVariable, uses the
// user's cache directory, and finds the checkout above the working directory or above the running program.
func NewLocator(progress io.Writer) (*Locator, error) {
	release, err := ParseRelease(os.Getenv(ReleaseVariable))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ReleaseVariable, err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find the user cache directory (set HOME or XDG_CACHE_HOME, or name a directory with "+
			"etcd and kube-apiserver in KUBEBUILDER_ASSETS): %w", err)
	}
	return &Locator{
		Assets:     os.Getenv("KUBEBUILDER_ASSETS"),
		Release:    release,
		CacheDir:   filepath.Join(cache, "node-firmware-operator", "controlplane"),
		ModuleRoot: ModuleRoot(),
		Progress:   progress,
	}, nil
}

// Locate returns the directory. When it has to download or build, that happens once for all processes that ask at the
// same time, and takes up to ten minutes on a small machine.
func (l *Locator) Locate(ctx context.Context) (string, error) {
	if l.Assets != "" {
		if err := l.checkAssets(ctx); err != nil {
			return "", fmt.Errorf("use KUBEBUILDER_ASSETS=%s (unset it to have the programs built): %w", l.Assets, err)
		}
		return l.Assets, nil
	}
	if dir, ok := l.cached(); ok {
		return dir, nil
	}
	if l.ModuleRoot == "" {
		return "", errors.New("find etcd and kube-apiserver: neither KUBEBUILDER_ASSETS nor the cache has them, and " +
			"there is no checkout to build them from; run `go run ./hack/controlplane` once in a checkout")
	}
	return l.fill(ctx)
}

// checkAssets checks the directory that the user names. Who asks for another release than the newest wants to know about that one.
func (l *Locator) checkAssets(ctx context.Context) error {
	if err := checkBinaries(l.Assets); err != nil || l.Release.orNewest() == Newest() {
		return err
	}
	return checkVersions(ctx, l.Assets, "v"+l.Release.minor()+".", "")
}

// cached returns the first complete directory of the cache. Directories appear there complete or not at all.
func (l *Locator) cached() (string, bool) {
	for _, dir := range []string{l.builtDir(), l.downloadedDir()} {
		if checkBinaries(dir) == nil {
			return dir, true
		}
	}
	return "", false
}

// fill puts the programs into the cache. Only one process at a time does so; the others wait and then find them.
func (l *Locator) fill(ctx context.Context) (string, error) {
	if err := os.MkdirAll(l.CacheDir, 0o755); err != nil {
		return "", fmt.Errorf("create cache directory: %w", err)
	}
	unlock, err := l.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if dir, ok := l.cached(); ok {
		return dir, nil
	}
	if err := l.removeInterrupted(); err != nil {
		return "", err
	}
	dir, downloadErr := l.download(ctx)
	if downloadErr == nil {
		return dir, nil
	}
	l.say("setup-envtest cannot download etcd and kube-apiserver here; building them from their Go modules, once")
	if dir, err = l.build(ctx); err != nil {
		return "", fmt.Errorf("get etcd and kube-apiserver (or name a directory that holds them in "+
			"KUBEBUILDER_ASSETS): %w", errors.Join(err, downloadErr))
	}
	return dir, nil
}

func (l *Locator) say(format string, args ...any) {
	fmt.Fprintf(l.Progress, "controlplane: "+format+"\n", args...)
}

// lockPoll is how often a waiting process tries to get the lock.
const lockPoll = 200 * time.Millisecond

// lock locks the cache for this process and returns the function that unlocks it. The kernel also unlocks it when the
// process ends, however it ends. A process that has to wait says so.
func (l *Locator) lock(ctx context.Context) (func(), error) {
	lock := flock.New(filepath.Join(l.CacheDir, "lock"), flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o644))
	locked, err := lock.TryLock()
	if err == nil && !locked {
		l.say("another run is getting etcd and kube-apiserver; waiting for it")
		_, err = lock.TryLockContext(ctx, lockPoll)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the control plane cache: %w", err)
	}
	return func() { lock.Close() }, nil
}

// removeInterrupted removes the remains of a process that was killed while it filled the cache.
func (l *Locator) removeInterrupted() error {
	for _, pattern := range []string{"build-*", "download-*"} {
		dirs, err := filepath.Glob(filepath.Join(l.CacheDir, pattern))
		if err != nil {
			return fmt.Errorf("list what earlier runs left: %w", err)
		}
		for _, dir := range dirs {
			if err := os.RemoveAll(dir); err != nil {
				return fmt.Errorf("remove what an earlier run left: %w", err)
			}
		}
	}
	return nil
}

// publish moves a complete directory to its final name.
func (l *Locator) publish(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("remove incomplete %s: %w", to, err)
	}
	if err := os.Chmod(from, 0o755); err != nil {
		return fmt.Errorf("open %s to readers: %w", from, err)
	}
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("publish %s: %w", to, err)
	}
	return nil
}

func (l *Locator) builtDir() string {
	return filepath.Join(l.CacheDir,
		fmt.Sprintf("%s-%s-%s-%s", l.Release, EtcdVersion, runtime.GOOS, runtime.GOARCH))
}

func (l *Locator) downloadedDir() string {
	return filepath.Join(l.CacheDir,
		fmt.Sprintf("envtest-%s-%s-%s", l.Release.minor(), runtime.GOOS, runtime.GOARCH))
}
