package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// unreleased is the commit that upgrades are tested from while no version is released.
const unreleased = "8a5582bf587d30e12b1bc20f6e6e410b2369edb5"

// ErrNoHistory is the error of BuildPrevious where the module is no checkout, or a shallow one.
var ErrNoHistory = errors.New("the history of the repository does not reach back to the previous version")

// BuildPrevious puts programs of the previous version into a directory, linked as Build does, and returns its sources and what it is called: the
// newest release before the commit that is checked out.
func BuildPrevious(dir string, programs ...string) (sources, version string, err error) {
	root, err := moduleRoot()
	if err != nil {
		return "", "", err
	}
	git := func(args ...string) (string, error) {
		var stderr bytes.Buffer
		cmd := exec.Command("git", append([]string{"-C", root}, args...)...)
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
		}
		return strings.TrimSpace(string(out)), nil
	}
	if version, err = git("describe", "--tags", "--abbrev=0", "--match=v*", "--exclude=*-*", "HEAD^"); err != nil {
		version = unreleased
	}
	commit, err := git("rev-parse", "--verify", version+"^{commit}")
	if err != nil {
		return "", "", fmt.Errorf("build %s: %w: %w", version, ErrNoHistory, err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", "", fmt.Errorf("build %s: %w", version, err)
	}
	sources = filepath.Join(cache, "node-firmware-operator", "previous", commit)
	if err := extract(root, commit, sources); err != nil {
		return "", "", err
	}
	unlock, err := lockPrograms(sources) // other checkouts have the same previous version
	if err != nil {
		return "", "", err
	}
	defer unlock()
	return sources, version, link(sources, filepath.Join(sources, "bin", "test"), dir, programs)
}

// extract puts the files of a commit into a directory that appears once it is complete, unless it is there already.
func extract(root, commit, dir string) error {
	fail := func(err error) error { return fmt.Errorf("extract commit %s: %w", commit, err) }
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fail(err)
	}
	partial, err := os.MkdirTemp(filepath.Dir(dir), "partial-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(partial) }()
	archive, err := exec.Command("git", "-C", root, "archive", commit).Output()
	if err != nil {
		return fail(err)
	}
	tar := exec.Command("tar", "-x", "-C", partial)
	tar.Stdin = bytes.NewReader(archive)
	if out, err := tar.CombinedOutput(); err != nil {
		return fail(fmt.Errorf("%w: %s", err, out))
	}
	if err := os.Rename(partial, dir); err != nil && !errors.Is(err, os.ErrExist) {
		return fail(err)
	}
	return nil
}
