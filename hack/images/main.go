// Command images builds the images of the operator and of the daemon from the Dockerfiles, and writes each as an archive that
// `docker load`, `ctr images import` and others read, with a list of its content (SPDX) beside it. It builds with buildah, podman or
// docker, whichever works here. Where no registry can be reached, the bases are stand-ins made of Debian's packages and this
// machine's Go. What it keeps for the next run is in the user's cache directory, outside the checkout.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// settings are what the command line says.
type settings struct {
	// engine is the builder, empty for the first that works.
	engine string
	// bases says where base images come from: auto, registry or stand-in.
	bases string
	// out is the directory of the archives.
	out string
	// registry and version are the first and the last part of the names of the images.
	registry, version string
	// slim builds the daemon without fwupd as well. twice builds everything once more, without the builder's cache, and compares.
	slim, twice bool
	// push sends the images to the registry in their names.
	push bool
	// updateBases writes the digests that the bases' tags have now to the Dockerfiles, and builds nothing.
	updateBases bool
}

func run(ctx context.Context, args []string) error {
	var s settings
	f := flag.NewFlagSet("images", flag.ContinueOnError)
	f.StringVar(&s.engine, "engine", "", "what builds: buildah, podman or docker (default: the first of them that works)")
	f.StringVar(&s.bases, "bases", basesAuto, "where base images come from: registry, stand-in (made of this machine's packages), or "+
		"auto for stand-ins where the registry does not answer")
	f.StringVar(&s.out, "out", filepath.Join("bin", "images"), "directory in which NAME.tar and NAME.spdx.json are written")
	f.StringVar(&s.registry, "registry", defaultRegistry, "registry and path in the names of the images")
	f.StringVar(&s.version, "version", "v0.1.0-dev", "tag of the images, and the version that their programs report")
	f.BoolVar(&s.slim, "slim", false, "also build the daemon without fwupd, with -slim after the tag")
	f.BoolVar(&s.twice, "twice", false, "build again without the builder's cache and fail unless the layers of the Dockerfiles are the same")
	f.BoolVar(&s.push, "push", false, "push the images to the registry")
	f.BoolVar(&s.updateBases, "update-bases", false, "write the digests that the tags of the base images have now to the Dockerfiles, and build nothing")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	if s.updateBases {
		return updateBases(ctx, ".", newHub())
	}
	if s.push && s.registry == defaultRegistry {
		return errors.New("push images: name your registry with --registry, such as registry.example.com/firmware")
	}
	return buildAll(ctx, s)
}
