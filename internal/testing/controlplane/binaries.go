package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The two programs of a control plane.
const (
	etcdBinary      = "etcd"
	apiServerBinary = "kube-apiserver"
)

// checkBinaries returns an error if dir does not hold both programs.
func checkBinaries(dir string) error {
	for _, name := range []string{etcdBinary, apiServerBinary} {
		if err := checkProgram(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// checkProgram returns an error if the path is not that of an executable file.
func checkProgram(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("find %s: %w", filepath.Base(path), err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("find %s: %s is not an executable file", filepath.Base(path), path)
	}
	return nil
}

// checkVersions runs both programs of dir and compares their versions with the expected prefixes. This detects a
// program that does not start, or for another architecture, before a test does.
func checkVersions(ctx context.Context, dir, apiServer, etcd string) error {
	for _, c := range []struct{ binary, want string }{
		{apiServerBinary, "Kubernetes " + apiServer},
		{etcdBinary, "etcd Version: " + strings.TrimPrefix(etcd, "v")},
	} {
		out, err := exec.CommandContext(ctx, filepath.Join(dir, c.binary), "--version").CombinedOutput()
		if err != nil {
			return fmt.Errorf("run %s: %w: %s", c.binary, err, tail(string(out), 5))
		}
		if !strings.HasPrefix(string(out), c.want) {
			return fmt.Errorf("run %s: want %q, got %q", c.binary, c.want, tail(string(out), 5))
		}
	}
	return nil
}

// tail is the last lines of s, for error messages.
func tail(s string, lines int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}
