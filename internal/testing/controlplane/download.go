package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// downloadTimeout bounds the download. On a machine without the internet it fails at once; the bound is for one
// whose packets are dropped.
const downloadTimeout = 30 * time.Second

// download asks setup-envtest for the programs.
func (l *Locator) download(ctx context.Context) (string, error) {
	const modfile = "-modfile=hack/tools/setup-envtest/go.mod"
	tmp, err := os.MkdirTemp(l.CacheDir, "download-")
	if err != nil {
		return "", fmt.Errorf("create directory for the download: %w", err)
	}
	defer removeAll(tmp)

	l.say("asking setup-envtest for etcd and kube-apiserver %s", l.Release.minor())
	// Building the tool takes longer than the download may; this does it first.
	if _, err := l.goCommand(ctx, ".", "tool", modfile, "setup-envtest", "version"); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	out, err := l.goCommand(ctx, ".", "tool", modfile, "setup-envtest", "use", l.Release.minor()+".x",
		"--bin-dir", tmp, "--print", "path")
	if err != nil {
		return "", err
	}
	dir := strings.TrimSpace(out)
	if err := checkBinaries(dir); err != nil {
		return "", fmt.Errorf("check the download: %w", err)
	}
	if err := checkVersions(ctx, dir, "v"+l.Release.minor()+".", ""); err != nil {
		return "", fmt.Errorf("check the download: %w", err)
	}
	if err := makeWritable(dir); err != nil {
		return "", err
	}
	return l.downloadedDir(), l.publish(dir, l.downloadedDir())
}

// makeWritable opens dir and its parents up to the download directory, which setup-envtest leaves read-only, so that
// it can be moved and cleaned up.
func makeWritable(dir string) error {
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			return fmt.Errorf("make download writable: %w", err)
		}
	}
	return nil
}
