package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"oras.land/oras-go/v2/registry/remote"
)

// defaultRegistry is the one in deploy/kustomize. Nobody can publish images under localhost, so that a node that lacks them never
// runs a stranger's.
const defaultRegistry = "localhost/nodefirmware"

// target is an image of this repository.
type target struct {
	// name is the last part of the image's name and the name of its files, and suffix follows the tag.
	name, suffix string
	file         string
	arguments    []string
}

// file is the name of the target's files without an extension.
func (t target) fileName() string { return t.name + t.suffix }

// targets are what is built, in this order.
func targets(slim bool) []target {
	out := []target{
		{name: "operator", file: "Dockerfile.operator"},
		{name: "daemon", file: "Dockerfile.daemon"},
	}
	if slim {
		out = append(out, target{name: "daemon", suffix: "-slim", file: "Dockerfile.daemon", arguments: []string{"FWUPD="}})
	}
	return out
}

// builder is one run of the program.
type builder struct {
	settings
	engine *engine
	// hub is the registry of the bases.
	hub       *remote.Registry
	arguments []string
	// replaced says of each base that a stand-in took its place; empty where none did.
	replaced []string
}

func buildAll(ctx context.Context, s settings) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("find cache: %w", err)
	}
	cache = filepath.Join(cache, "node-firmware-operator", "images")
	if err := errors.Join(os.MkdirAll(cache, 0o700), os.MkdirAll(s.out, 0o755)); err != nil {
		return fmt.Errorf("make directories: %w", err)
	}
	lock := flock.New(filepath.Join(cache, "lock"))
	if _, err := lock.TryLockContext(ctx, time.Second); err != nil {
		return fmt.Errorf("wait for another run: %w", err)
	}
	defer lock.Close()
	b := builder{settings: s, hub: newHub()}
	if b.engine, err = findEngine(ctx, s.engine, cache, os.Stderr); err != nil {
		return err
	}
	if b.arguments, err = b.prepare(ctx, cache); err != nil {
		return err
	}
	for _, t := range targets(s.slim) {
		if err := b.make(ctx, t); err != nil {
			return fmt.Errorf("build %s: %w", t.fileName(), err)
		}
	}
	return nil
}

// prepare decides where the bases come from, and returns the arguments of all builds.
func (b *builder) prepare(ctx context.Context, cache string) ([]string, error) {
	arguments := []string{"VERSION=" + b.version}
	if proxy, err := exec.CommandContext(ctx, "go", "env", "GOPROXY").Output(); err == nil {
		arguments = append(arguments, "GOPROXY="+strings.TrimSpace(string(proxy)))
	}
	switch b.bases {
	case basesRegistry:
		return arguments, nil
	case basesAuto:
		err := b.hub.Ping(ctx)
		if err == nil {
			return arguments, nil
		}
		if b.push {
			return nil, fmt.Errorf("nothing was built: the registry of the base images cannot be reached, and what is built on stand-ins for them is for "+
				"tests; try again, or say --bases=%s to push such images all the same: %w", basesStandIn, err)
		}
		fmt.Fprintf(b.engine.log, "images: building on stand-ins for the base images, because their registry cannot be reached: %v\n", err)
	case basesStandIn:
	default:
		return nil, fmt.Errorf("unknown --bases %q: name %s, %s or %s", b.bases, basesAuto, basesRegistry, basesStandIn)
	}
	fmt.Fprintln(b.engine.log, "images: these images are for tests: do not ship what was built on stand-ins")
	standIns, err := standIns(ctx, b.engine, cache)
	if err != nil {
		return nil, err
	}
	if b.replaced, err = replaced(".", standIns); err != nil {
		return nil, err
	}
	return slices.Concat(arguments, standIns), nil
}

// make builds an image and writes its files.
func (b *builder) make(ctx context.Context, t target) error {
	name := b.registry + "/" + t.name + ":" + b.version + t.suffix
	path := filepath.Join(b.out, t.fileName()+".tar")
	image, err := b.build(ctx, t, name, path, false)
	if err != nil {
		return err
	}
	defer image.close()
	if b.twice {
		if err := b.again(ctx, t, name, image); err != nil {
			return err
		}
	}
	list := filepath.Join(b.out, t.fileName()+".spdx.json")
	if err := writeSBOM(list, name, image); err != nil {
		return err
	}
	fmt.Printf("%s\n  image   %s\n  archive %s, %.1f MB\n  content %s\n", name, image.ID, path, megabytes(image.size()), list)
	for _, r := range b.replaced {
		fmt.Printf("  base    %s\n", r)
	}
	for _, l := range image.Layers {
		fmt.Printf("  layer   %s %8.1f MB\n", l.DiffID, megabytes(l.Size))
	}
	if b.push {
		return b.engine.push(ctx, name)
	}
	return nil
}

// build builds an image, writes its archive and opens it.
func (b *builder) build(ctx context.Context, t target, name, path string, fresh bool) (*archive, error) {
	o := order{file: t.file, context: ".", name: name, arguments: slices.Concat(b.arguments, t.arguments), fresh: fresh}
	if err := b.engine.build(ctx, o); err != nil {
		return nil, err
	}
	if err := b.engine.save(ctx, name, path); err != nil {
		return nil, err
	}
	return openArchive(path)
}

// again builds an image once more without an earlier layer, and compares.
func (b *builder) again(ctx context.Context, t target, name string, first *archive) error {
	path := filepath.Join(b.out, t.fileName()+".again.tar")
	second, err := b.build(ctx, t, name+"-again", path, true)
	if err != nil {
		return err
	}
	defer second.close()
	if differing := differences(first.Layers, second.Layers); len(differing) > 0 {
		return fmt.Errorf("two builds differ in %s: compare %s.tar with %s", strings.Join(differing, ", "), filepath.Join(b.out, t.fileName()), path)
	}
	fmt.Printf("%s: two builds have the same %d layers\n", name, len(first.Layers))
	return errors.Join(b.engine.run(ctx, "rmi", name+"-again"), os.Remove(path))
}

// differences names the layers that are not the same.
func differences(a, b []layer) []string {
	if len(a) != len(b) {
		return []string{fmt.Sprintf("the number of layers (%d and %d)", len(a), len(b))}
	}
	var out []string
	for i := range a {
		if a[i].DiffID != b[i].DiffID {
			out = append(out, fmt.Sprintf("layer %d", i+1))
		}
	}
	return out
}

func megabytes(n int64) float64 { return float64(n) / 1e6 }
