// Command release makes what a release consists of besides images and chart. Its subcommand pack packs the plugin of kubectl for every platform,
// each with its license, its completion and its man pages, and writes the manifest by which krew installs it; the same commit gives the same
// archives. Its subcommand seal takes the directory with everything, adds the manifests for kubectl apply, the notes and a statement of
// provenance, lists the checksums of all of it and signs the list; check says beforehand whether it would.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// platforms that people work on.
const platforms = "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := do(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func do(ctx context.Context, args []string) error {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	f := flag.NewFlagSet(command, flag.ContinueOnError)
	version := f.String("version", "", "version of the release, such as v1.2.3")
	dir := f.String("out", "bin/release", "directory of the release")
	switch command {
	case "pack":
		only := f.String("platforms", platforms, "operating systems and processors, as GOOS/GOARCH")
		from := f.String("from", "https://github.com/nodefirmware/node-firmware-operator/releases/download", "address of the releases, with a directory for each version")
		if err := f.Parse(args); err != nil {
			return err
		}
		return release(ctx, *version, *dir, *from, strings.Fields(*only))
	case "check", "seal":
		s := sealing{}
		f.StringVar(&s.registry, "registry", "", "registry and path of the images that the manifests name")
		f.StringVar(&s.key, "key", "", "private ECDSA key, as cosign generate-key-pair makes it; COSIGN_PASSWORD opens it")
		f.BoolVar(&s.dry, "dry-run", false, "do all of it for any commit, without images and signature; what comes out is no release")
		if err := f.Parse(args); err != nil {
			return err
		}
		s.version, s.dir = *version, *dir
		if command == "check" {
			_, err := s.check(ctx)
			return err
		}
		return s.seal(ctx)
	}
	return fmt.Errorf("%q: want pack, check or seal", command)
}

// release writes the archives and the manifest.
func release(ctx context.Context, version, out, from string, on []string) error {
	if !semantic.MatchString(version) {
		return fmt.Errorf("-version %q: krew wants vMAJOR.MINOR.PATCH, with or without a suffix", version)
	}
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // it is published
		return fmt.Errorf("make directory: %w", err)
	}
	made, err := committed(ctx)
	if err != nil {
		return err
	}
	pages, err := manPages(version, made)
	if err != nil {
		return err
	}
	m := manifest{Version: version}
	for _, platform := range on {
		p, err := pack(ctx, platform, version, out, pages, made)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		p.URI = from + "/" + version + "/" + p.URI
		m.Platforms = append(m.Platforms, p)
		fmt.Printf("%s  %s\n", p.SHA256, p.URI)
	}
	return m.write(out)
}

// committed is when the commit was made: everything in the archives is of that time.
func committed(ctx context.Context) (time.Time, error) {
	text, err := run(ctx, nil, "git", "log", "-1", "--format=%cI")
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339, strings.TrimSpace(text))
}
