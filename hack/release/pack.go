package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/nodefirmware/node-firmware-operator/internal/kubectl"
)

// file is one of an archive.
type file struct {
	name    string
	content []byte
	program bool
}

// completion is what kubectl runs when a person presses Tab.
const completion = "#!/bin/sh\nexec kubectl firmware __complete \"$@\"\n"

// pack builds the plugin for a platform and packs it.
func pack(ctx context.Context, platform, version, out string, more []file, made time.Time) (packed, error) {
	system, processor, both := strings.Cut(platform, "/")
	if !both {
		return packed{}, fmt.Errorf("want GOOS/GOARCH")
	}
	p := packed{OS: system, Arch: processor, Bin: "kubectl-firmware"}
	if system == "windows" {
		p.Bin += ".exe"
	}
	program, err := build(ctx, system, processor, version)
	if err != nil {
		return p, err
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return p, fmt.Errorf("read license: %w", err)
	}
	files := []file{{p.Bin, program, true}, {"LICENSE", license, false}}
	var archive []byte
	if system == "windows" {
		p.URI = fmt.Sprintf("kubectl-firmware_%s_%s.zip", system, processor)
		archive, err = zipped(files, made)
	} else {
		p.URI = fmt.Sprintf("kubectl-firmware_%s_%s.tar.gz", system, processor)
		archive, err = tarred(append(append(files, file{"kubectl_complete-firmware", []byte(completion), true}), more...), made)
	}
	if err != nil {
		return p, err
	}
	p.SHA256 = fmt.Sprintf("%x", sha256.Sum256(archive))
	if err := os.WriteFile(filepath.Join(out, p.URI), archive, 0o644); err != nil { //nolint:gosec // it is published
		return p, fmt.Errorf("write archive: %w", err)
	}
	return p, nil
}

func build(ctx context.Context, system, processor, version string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "program")
	_, err = run(ctx, []string{"CGO_ENABLED=0", "GOOS=" + system, "GOARCH=" + processor}, "go", "build", "-trimpath", "-tags", "grpcnotrace",
		"-ldflags", "-s -w -X github.com/nodefirmware/node-firmware-operator/internal/version.version="+version, "-o", program, "./cmd/kubectl-firmware")
	if err != nil {
		return nil, err
	}
	return os.ReadFile(program) //nolint:gosec // it was just built
}

// run runs a command of the machine and returns what it printed.
func run(ctx context.Context, env []string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // those of this program
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(argv[:2], " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(stdout), nil
}

func tarred(files []file, made time.Time) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: int64(f.mode()), Size: int64(len(f.content)), ModTime: made, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
		if _, err := t.Write(f.content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := t.Close(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return out.Bytes(), nil
}

func zipped(files []file, made time.Time) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: made.UTC()}
		h.SetMode(f.mode())
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = io.Copy(w, bytes.NewReader(f.content))
		}
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return out.Bytes(), nil
}

func (f file) mode() os.FileMode {
	if f.program {
		return 0o755
	}
	return 0o644
}

// manPages are those of the command and of each verb.
func manPages(version string, made time.Time) ([]file, error) {
	dir, err := os.MkdirTemp("", "man-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	c := kubectl.Command()
	c.DisableAutoGenTag = true
	c.PersistentFlags().Lookup("cache-dir").DefValue = "$HOME/.kube/cache" // and not that of whoever packs it
	header := &doc.GenManHeader{Section: "1", Source: "node-firmware-operator " + version, Manual: "kubectl firmware", Date: &made}
	if err := doc.GenManTree(c, header, dir); err != nil {
		return nil, fmt.Errorf("write man pages: %w", err)
	}
	written, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list man pages: %w", err)
	}
	var out []file
	for _, w := range written {
		content, err := os.ReadFile(filepath.Join(dir, w.Name())) //nolint:gosec // it was just written
		if err != nil {
			return nil, fmt.Errorf("read man page: %w", err)
		}
		out = append(out, file{name: "man/man1/" + w.Name(), content: content})
	}
	return out, nil
}
