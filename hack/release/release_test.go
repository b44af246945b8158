package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/kubectl"
)

// krew itself takes the manifest and installs the plugin from the archive.
func TestKrewInstallsTheRelease(t *testing.T) {
	t.Chdir("../..")
	out, home, on := t.TempDir(), t.TempDir(), runtime.GOOS+"/"+runtime.GOARCH
	require.NoError(t, release(t.Context(), "v9.8.7", out, "https://firmware.example.com/download", []string{on}))
	manifest, archive := filepath.Join(out, "firmware.yaml"), filepath.Join(out, "kubectl-firmware_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz")

	tool := func(argv ...string) {
		t.Helper()
		said, err := run(t.Context(), []string{"KREW_ROOT=" + home}, append([]string{"go", "tool", "-modfile=hack/tools/krew/go.mod"}, argv...)...)
		require.NoError(t, err, said)
	}
	tool("validate-krew-manifest", "-manifest", manifest, "-skip-install")
	tool("krew", "install", "--manifest="+manifest, "--archive="+archive)
	said, err := run(t.Context(), nil, filepath.Join(home, "bin", "kubectl-firmware"), "--version")
	require.NoError(t, err)
	assert.Equal(t, "kubectl firmware version v9.8.7\n", said)

	before, err := os.ReadFile(archive)
	require.NoError(t, err)
	has := map[string]string{}
	z, err := gzip.NewReader(bytes.NewReader(before))
	require.NoError(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		has[h.Name] = string(text)
	}
	assert.Contains(t, has["LICENSE"], "Apache License")
	assert.Equal(t, completion, has["kubectl_complete-firmware"])
	home, err = os.UserHomeDir()
	require.NoError(t, err)
	for _, c := range kubectl.Command().Commands() {
		page := has["man/man1/kubectl-firmware-"+c.Name()+".1"]
		assert.Contains(t, page, "kubectl firmware "+c.Name(), c.Name())
		assert.NotContains(t, page, home, "it is that of whoever reads it")
	}

	require.NoError(t, release(t.Context(), "v9.8.7", out, "https://firmware.example.com/download", []string{on}))
	after, err := os.ReadFile(archive)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(before, after), "the same commit gives the same archive")
}

func TestAReleaseThatCannotBeIsRefused(t *testing.T) {
	t.Chdir("../..")
	for _, version := range []string{"", "1.2.3", "v1.2", "v1.2.3 ", "latest"} {
		assert.ErrorContains(t, release(t.Context(), version, t.TempDir(), "", nil), "krew wants vMAJOR.MINOR.PATCH", version)
	}
	assert.ErrorContains(t, release(t.Context(), "v1.2.3", t.TempDir(), "", []string{"linux"}), "linux: want GOOS/GOARCH")
}

// Windows opens no tar by itself.
func TestAZipKeepsProgramsExecutable(t *testing.T) {
	made := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	text, err := zipped([]file{{"kubectl-firmware.exe", []byte("program"), true}, {"LICENSE", []byte("license"), false}}, made)
	require.NoError(t, err)
	r, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	require.NoError(t, err)
	var names []string
	for _, f := range r.File {
		names = append(names, f.Name)
		assert.Equal(t, strings.HasSuffix(f.Name, ".exe"), f.Mode()&0o111 != 0)
		assert.True(t, made.Equal(f.Modified), f.Modified)
	}
	assert.Equal(t, []string{"kubectl-firmware.exe", "LICENSE"}, names)
}
