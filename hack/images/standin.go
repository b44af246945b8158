package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

const (
	basesAuto     = "auto"
	basesRegistry = "registry"
	basesStandIn  = "stand-in"
)

// The names of the stand-ins. Nothing can be published under localhost, so they are never taken for the real ones. The tag says
// which recipe made them.
const (
	standInDebian = "localhost/node-firmware-stand-in/debian:bookworm-slim-1"
	standInGo     = "localhost/node-firmware-stand-in/golang:"
)

// slimmed are what the real image of the same name leaves out of Debian's packages.
var slimmed = []string{
	"/usr/share/doc/*", "/usr/share/info/*", "/usr/share/lintian/*", "/usr/share/linda/*", "/usr/share/locale/*", "/usr/share/man/*",
	"/usr/share/groff/*",
}

// standIns returns the arguments that make the Dockerfiles use stand-ins, which it makes where the builder has none.
func standIns(ctx context.Context, e *engine, cache string) ([]string, error) {
	goVersion := strings.TrimPrefix(runtime.Version(), "go")
	names := []string{"DEBIAN_IMAGE=" + standInDebian, "GO_IMAGE=" + standInGo + goVersion + "-1"}
	if !e.has(ctx, standInDebian) {
		fmt.Fprintln(e.log, "images: making a stand-in for debian:bookworm-slim of Debian's packages, once")
		if err := e.standIn(ctx, cache, standInDebian, "FROM scratch\nADD root.tar /\nCMD [\"bash\"]\n", debianRoot); err != nil {
			return nil, fmt.Errorf("make stand-in for debian: %w", err)
		}
	}
	if name := standInGo + goVersion + "-1"; !e.has(ctx, name) {
		fmt.Fprintln(e.log, "images: making a stand-in for golang of this machine's Go", goVersion+", once")
		text := "FROM " + standInDebian + "\nADD root.tar /\nENV PATH=/usr/local/go/bin:$PATH GOTOOLCHAIN=local\n"
		if err := e.standIn(ctx, cache, name, text, goRoot); err != nil {
			return nil, fmt.Errorf("make stand-in for golang: %w", err)
		}
	}
	return names, nil
}

// based finds the bases in a Dockerfile: ARG NAME_IMAGE=IMAGE.
var based = regexp.MustCompile(`(?m)^ARG ([A-Z]+_IMAGE)=(\S+)$`)

// replaced says of each base that the Dockerfiles in the directory root name, and that the arguments replace, that it was not used.
func replaced(root string, arguments []string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(root, "Dockerfile.*"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read Dockerfile: %w", err)
		}
		for _, m := range based.FindAllStringSubmatch(string(raw), -1) {
			for _, a := range arguments {
				with, is := strings.CutPrefix(a, m[1]+"=")
				if text := fmt.Sprintf("%s was not pulled: the stand-in %s is in its place", m[2], with); is && !slices.Contains(out, text) {
					out = append(out, text)
				}
			}
		}
	}
	if len(out) != len(arguments) {
		return nil, fmt.Errorf("the Dockerfiles do not name the bases that %q replace, once each", arguments)
	}
	return out, nil
}

// standIn builds one from a Dockerfile and an archive of files.
func (e *engine) standIn(ctx context.Context, cache, name, text string, files func(ctx context.Context, e *engine, path string) error) error {
	dir, err := os.MkdirTemp(filepath.Join(cache, "tmp"), "stand-in-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(text), 0o600); err != nil {
		return err
	}
	if err := files(ctx, e, filepath.Join(dir, "root.tar")); err != nil {
		return err
	}
	return e.build(ctx, order{file: filepath.Join(dir, "Dockerfile"), context: dir, name: name})
}

// debianRoot writes the root file system of a small Debian 12.
func debianRoot(ctx context.Context, e *engine, path string) error {
	args := []string{"--variant=minbase", "--dpkgopt=force-unsafe-io"}
	for _, s := range slimmed {
		args = append(args, "--dpkgopt=path-exclude="+s)
	}
	args = append(args, "--dpkgopt=path-include=/usr/share/doc/*/copyright", "--customize-hook=rm -f $1/etc/hostname $1/etc/resolv.conf",
		"bookworm", path)
	c := exec.CommandContext(ctx, "mmdebstrap", args...)
	c.Stdout, c.Stderr = e.log, e.log
	c.Env = append(append(os.Environ(), e.env...), "SOURCE_DATE_EPOCH=0")
	err := c.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("run as root: %s: %w", install, err)
	}
	return err
}

// goRoot writes this machine's Go and the certificates that it trusts, where the image golang has them.
func goRoot(ctx context.Context, _ *engine, path string) error {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("find Go: %w", err)
	}
	certificates, err := certificates()
	if err != nil {
		return err
	}
	args := []string{
		"--create", "--file=" + path, "--dereference", "--owner=0", "--group=0", "--exclude=testdata", "--exclude=./api", "--exclude=./doc",
		"--exclude=./misc", "--exclude=./test", "--transform=s,^/.*,etc/ssl/certs/ca-certificates.crt,", `--transform=s,^\./,usr/local/go/,`,
		"--absolute-names", certificates, "--directory=" + strings.TrimSpace(string(out)), ".",
	}
	if out, err := exec.CommandContext(ctx, "tar", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("pack Go: %w: %s", err, out)
	}
	return nil
}

// certificates is the file of those that this machine trusts.
func certificates() (string, error) {
	for _, path := range []string{os.Getenv("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", errors.New("find the certificates that this machine trusts: install ca-certificates")
}
