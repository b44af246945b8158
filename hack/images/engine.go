package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// engine is a program that builds images.
type engine struct {
	// name is buildah, podman or docker.
	name string
	// global are the arguments in front of every command of it, and env is added to its environment.
	global, env []string
	log         io.Writer
}

// install is what a person runs where there is no builder.
const install = "apt-get update && apt-get install --yes --no-install-recommends buildah mmdebstrap"

// findEngine returns the named builder, or the first that works. Images and caches of buildah and podman are kept in the
// directory cache, apart from those that the machine has for other ends; docker keeps its own.
func findEngine(ctx context.Context, name, cache string, log io.Writer) (*engine, error) {
	names := []string{"buildah", "podman", "docker"}
	if name != "" {
		names = []string{name}
	}
	var problems []error
	for _, n := range names {
		var e *engine
		var err error
		switch n {
		case "buildah", "podman":
			e, err = findBuildah(ctx, n, cache, log)
		case "docker":
			e = &engine{name: n, env: []string{"DOCKER_BUILDKIT=1"}, log: log}
			err = e.works(ctx, "info")
		default:
			return nil, fmt.Errorf("unknown engine %q: name buildah, podman or docker", n)
		}
		if err == nil {
			return e, nil
		}
		problems = append(problems, err)
	}
	return nil, fmt.Errorf("find a builder of images: run as root: %s\n%w", install, errors.Join(problems...))
}

// findBuildah prefers the driver that does not copy every layer.
func findBuildah(ctx context.Context, name, cache string, log io.Writer) (*engine, error) {
	temporary := filepath.Join(cache, "tmp")
	if err := os.MkdirAll(temporary, 0o700); err != nil {
		return nil, fmt.Errorf("keep the builder's files: %w", err)
	}
	var problems []error
	for _, driver := range []string{"overlay", "vfs"} {
		e := &engine{
			name: name, log: log,
			global: []string{
				"--storage-driver", driver, "--root", filepath.Join(cache, driver), "--runroot", filepath.Join(cache, driver+"-run"),
			},
			// The caches that a Dockerfile mounts are kept there as well.
			env: []string{"TMPDIR=" + temporary, "BUILDAH_ISOLATION=chroot"},
		}
		err := e.works(ctx, "info")
		if err == nil {
			return e, nil
		}
		problems = append(problems, err)
		if errors.Is(err, exec.ErrNotFound) {
			break
		}
	}
	return nil, errors.Join(problems...)
}

// works asks the engine for something that needs everything it has.
func (e *engine) works(ctx context.Context, args ...string) error {
	var stderr bytes.Buffer
	c := e.command(ctx, args...)
	c.Stdout, c.Stderr = nil, &stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s does not work here: %w: %s", e.name, err, lastLine(stderr.String()))
	}
	return nil
}

func (e *engine) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, e.name, append(append([]string{}, e.global...), args...)...)
	c.Stdout, c.Stderr = e.log, e.log
	c.Env = append(os.Environ(), e.env...)
	// What a builder has started goes on without it, so the whole group is asked to end.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	return c
}

func (e *engine) run(ctx context.Context, args ...string) error {
	if err := e.command(ctx, args...).Run(); err != nil {
		return fmt.Errorf("run %s %s: %w", e.name, args[0], err)
	}
	return nil
}

// order is one image to build.
type order struct {
	// file is the Dockerfile, context the directory that it copies from, name the name and tag of the image.
	file, context, name string
	// arguments are NAME=VALUE.
	arguments []string
	// fresh uses no layer of an earlier build.
	fresh bool
}

// build builds an image. Every file of its layers, and the image itself, bears the beginning of 1970 as its time, so that equal
// files make equal layers whenever they are built.
func (e *engine) build(ctx context.Context, o order) error {
	args := []string{"build", "--file", o.file, "--tag", o.name}
	if e.name == "docker" {
		args = []string{"buildx", "build", "--file", o.file, "--tag", o.name, "--load", "--provenance=false", "--build-arg", "SOURCE_DATE_EPOCH=0"}
	} else {
		args = append(args, "--timestamp", "0", "--layers")
	}
	if e.name == "buildah" {
		// Its own version would be part of the image.
		args = append(args, "--identity-label=false")
	}
	if o.fresh {
		args = append(args, "--no-cache")
	}
	for _, a := range o.arguments {
		args = append(args, "--build-arg", a)
	}
	return e.run(ctx, append(args, o.context)...)
}

// has reports whether the engine has an image.
func (e *engine) has(ctx context.Context, name string) bool {
	args := []string{"inspect", "--type", "image", name}
	c := e.command(ctx, args...)
	c.Stdout, c.Stderr = nil, nil
	return c.Run() == nil
}

// save writes an image as an archive in the format of `docker save`.
func (e *engine) save(ctx context.Context, name, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("replace archive: %w", err)
	}
	switch e.name {
	case "buildah":
		return e.run(ctx, "push", "--quiet", name, "docker-archive:"+path+":"+name)
	case "podman":
		return e.run(ctx, "save", "--quiet", "--format", "docker-archive", "--output", path, name)
	default:
		return e.run(ctx, "save", "--output", path, name)
	}
}

func (e *engine) push(ctx context.Context, name string) error { return e.run(ctx, "push", name) }

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
