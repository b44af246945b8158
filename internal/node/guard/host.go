package guard

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

// The files of a guard in the state directory: the directory with all of them, where the static pod was put, copies of the tool
// profiles and of the keys of images, and what a running guard holds locked.
const (
	Dir        = "guard"
	markerFile = "installed.json"
	profiles   = "profiles"
	keys       = "keys"
	aliveFile  = "alive"
)

// marker says what was put on the host, outside the state directory.
type marker struct {
	// Manifest is the path of the static pod on the host.
	Manifest string `json:"manifest"`
	// ID is another one for each static pod.
	ID string `json:"id,omitempty"`
	// Version is that of the program whose pod it was made of.
	Version string `json:"version,omitempty"`
}

// Host installs the guard of one host, and removes it. The order of the writes makes sure that a static pod is never there without the
// marker that says where, whenever the power fails.
type Host struct {
	// Proc is the /proc of the host, and Root the way to its files, to be written.
	Proc, Root string
	// StateDir is the state directory of this process, and of the guard.
	StateDir string
	// ProfileDir is the directory with the tool profiles of this process; empty for none.
	ProfileDir string
	// KeysDir is the directory with the keys of images of this process; empty for none.
	KeysDir string
	// Own reads the pod of this process; nil in a guard, which installs none.
	Own func(ctx context.Context) (*corev1.Pod, error)
	// Ask asks the server once, as a guard does that has no access to it, and returns nil when it answers; nil for no question.
	Ask func(ctx context.Context, server string) error
	// Version is that of this program. A guard of another one may not be able to read what this one writes.
	Version string
	// FS is nil for the file system of this machine.
	FS durable.FS
	// Patience is how long the kubelet may take to start the guard; zero for a minute.
	Patience time.Duration
}

// patience is longer than the kubelet takes to see a new file where it gets no notice of it.
const patience = time.Minute

// Install has the kubelet start a guard now and after each boot, and returns once it runs. What is there already is kept.
func (h Host) Install(ctx context.Context) error {
	placed, err := h.placed()
	if err == nil && !placed && h.Own == nil {
		err = errors.New("the static pod of this guard is gone")
	}
	if err == nil && !placed {
		err = h.place(ctx)
	}
	if err == nil {
		err = h.awaitAlive(ctx)
	}
	if err != nil {
		return fmt.Errorf("install guard: %w", err)
	}
	return nil
}

// place writes everything, the static pod last.
func (h Host) place(ctx context.Context) error {
	k, err := FindKubelet(h.Proc, h.Root)
	if err != nil {
		return err
	}
	if err := h.survives(k.Manifests); err != nil {
		return err
	}
	own, err := h.Own(ctx)
	if err != nil {
		return err
	}
	if h.Ask != nil {
		if err := h.Ask(ctx, k.Server); err != nil {
			return fmt.Errorf("a guard could not tell an API server that answers from one that is away: %w", err)
		}
	}
	id := rand.Text()
	content, err := manifest(own, id, k.Server, filepath.Join(h.StateDir, Dir, profiles), filepath.Join(h.StateDir, Dir, keys))
	if err != nil {
		return err
	}
	if err := h.Remove(ctx); err != nil {
		return err
	}
	at := marker{Manifest: filepath.Join(k.Manifests, ManifestFile), ID: id, Version: h.Version}
	if err := h.prepare(at); err != nil {
		return err
	}
	path, err := within(h.Root, at.Manifest)
	if err != nil {
		return err
	}
	return durable.WriteFile(h.fs(), path, content)
}

// survives returns nil when a static pod in the directory outlives the boot as the state directory does. Some systems make
// /etc anew with each boot.
func (h Host) survives(dir string) error {
	path, err := within(h.Root, dir)
	if err != nil {
		return err
	}
	var pods, state unix.Stat_t
	kind, err := durable.InMemory(path)
	if err := errors.Join(err, unix.Stat(path, &pods), unix.Stat(h.StateDir, &state)); err != nil {
		return fmt.Errorf("look at the kubelet's static pods: %w", err)
	}
	if pods.Dev != state.Dev && kind != "" {
		return fmt.Errorf("the kubelet's directory for static pods %s is in memory: what is there is gone after a reboot", dir)
	}
	return nil
}

// prepare fills the directory of the guard.
func (h Host) prepare(at marker) error {
	dir := filepath.Join(h.StateDir, Dir)
	if err := h.fs().Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	text, err := json.Marshal(at)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(h.fs(), filepath.Join(dir, markerFile), text); err != nil {
		return err
	}
	if err := h.fs().SyncDir(h.StateDir); err != nil {
		return err
	}
	if err := h.copyFiles(h.ProfileDir, filepath.Join(dir, profiles)); err != nil {
		return err
	}
	if err := h.copyFiles(h.KeysDir, filepath.Join(dir, keys)); err != nil {
		return err
	}
	return h.fs().SyncDir(dir)
}

// copyFiles copies the files of a directory that comes from an object of the API; empty for none.
func (h Host) copyFiles(from, to string) error {
	if err := h.fs().Mkdir(to); err != nil {
		return err
	}
	if from == "" {
		return nil
	}
	entries, err := os.ReadDir(from)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list files for the guard: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(from, e.Name())
		info, err := os.Stat(path) // a link, in a mounted ConfigMap
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was removed meanwhile
			continue
		case err != nil: // a key that is left out is one that the guard does not ask for
			return fmt.Errorf("copy file for the guard: %w", err)
		case !info.Mode().IsRegular():
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("copy file for the guard: %w", err)
		}
		if err := durable.WriteFile(h.fs(), filepath.Join(to, e.Name()), content); err != nil {
			return err
		}
	}
	return nil
}

// Remove takes the static pod away, and then what it needs. Where nothing is installed it does nothing.
func (h Host) Remove(context.Context) error {
	dir := filepath.Join(h.StateDir, Dir)
	_, missing := h.fs().ReadDir(dir)
	paths, err := h.manifests()
	for _, p := range paths {
		if err == nil {
			err = h.removeFile(p, errors.Is(missing, fs.ErrNotExist))
		}
	}
	if err == nil && !errors.Is(missing, fs.ErrNotExist) {
		err = errors.Join(h.fs().RemoveAll(dir), h.fs().SyncDir(h.StateDir))
	}
	if err != nil {
		return fmt.Errorf("remove guard: %w", err)
	}
	return nil
}

// manifests is where a static pod may be: where the marker says, and where one would be put now, because the state directory may have
// been lost.
func (h Host) manifests() (paths []string, err error) {
	at, err := h.marker()
	if at != nil {
		paths = append(paths, at.Manifest)
	}
	if k, notFound := FindKubelet(h.Proc, h.Root); notFound == nil {
		if now := filepath.Join(k.Manifests, ManifestFile); !slices.Contains(paths, now) {
			paths = append(paths, now)
		}
		err = nil // whatever the marker says
	}
	for i, p := range paths {
		var outside error
		if paths[i], outside = within(h.Root, p); outside != nil {
			return nil, outside
		}
	}
	return paths, err
}

// removeFile removes the file and what an interrupted write left beside it. That nothing is there is durable where it was sure before.
func (h Host) removeFile(path string, sure bool) error {
	removed := !sure
	for _, name := range []string{path, filepath.Join(filepath.Dir(path), durable.TempPrefix+filepath.Base(path))} {
		switch err := h.fs().Remove(name); {
		case err == nil:
			removed = true
		case !h.absent(name):
			return err
		}
	}
	if !removed {
		return nil
	}
	if err := h.fs().SyncDir(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil // the directory is gone, and the file with it
}

// absent reports whether nothing is there. Where files are read-only, a removal fails before anybody looks for the file.
func (h Host) absent(path string) bool {
	f, err := h.fs().Open(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	_ = f.Close()
	return false
}

// placed reports whether the static pod of the marker is where it says, whole, and of this version. A guard does not judge its own.
func (h Host) placed() (bool, error) {
	at, err := h.marker()
	if err != nil || at == nil || h.Own != nil && at.Version != h.Version {
		return false, err
	}
	path, err := within(h.Root, at.Manifest)
	if err != nil {
		return false, err
	}
	content, err := h.read(path)
	return len(bytes.TrimSpace(content)) > 0, err
}

// marker reads the marker; nil when there is none.
func (h Host) marker() (*marker, error) {
	content, err := h.read(filepath.Join(h.StateDir, Dir, markerFile))
	if err != nil || content == nil {
		return nil, err
	}
	m := &marker{}
	if err := json.Unmarshal(content, m); err != nil || m.Manifest == "" {
		return nil, fmt.Errorf("read %s: it names no static pod: %w", markerFile, err)
	}
	return m, nil
}

// read returns nil for a file that is missing.
func (h Host) read(path string) ([]byte, error) {
	f, err := h.fs().Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const most = 1 << 20
	content, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return content, nil
}

func (h Host) fs() durable.FS { return cmp.Or[durable.FS](h.FS, durable.OS{}) }

// Installed is the id of what is installed; empty for nothing.
func (h Host) Installed() (id string, err error) {
	at, err := h.marker()
	if at != nil {
		id = at.ID
	}
	return id, err
}

// Live holds the lock by which others see that a guard runs, until it is closed or the process ends. A directory that is gone holds none.
func (h Host) Live() (io.Closer, error) {
	l := flock.New(filepath.Join(h.StateDir, Dir, aliveFile))
	ok, err := l.TryLock()
	switch {
	case err != nil:
		return nil, fmt.Errorf("lock %s: %w", l.Path(), err)
	case !ok:
		return nil, errors.New("another guard runs on this host")
	}
	return l, nil
}

// alivePoll is how often a guard is looked for that is to start.
const alivePoll = 100 * time.Millisecond

// awaitAlive waits until the guard runs: a static pod that the kubelet refuses guards nothing, and the kubelet tells only its log.
func (h Host) awaitAlive(ctx context.Context) error {
	limit := cmp.Or(h.Patience, patience)
	ctx, done := context.WithTimeout(ctx, limit)
	defer done()
	tick := time.NewTicker(alivePoll)
	defer tick.Stop()
	for {
		alive, err := h.Alive()
		if err != nil || alive {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the kubelet has not started the static pod %s within %s; its log says why", podName, limit)
		}
	}
}

// Alive reports whether a guard runs that was started for what is installed now.
func (h Host) Alive() (bool, error) {
	l := flock.New(filepath.Join(h.StateDir, Dir, aliveFile), flock.SetFlag(os.O_RDONLY))
	free, err := l.TryRLock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for the guard: %w", err)
	}
	return !free, l.Close()
}
