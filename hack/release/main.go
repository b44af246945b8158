// Command release packs the plugin of kubectl for every platform, each with its license, its completion and its man pages, and writes the
// manifest by which krew installs it. The same commit gives the same archives.
package main

import (
	"context"
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
	version := flag.String("version", "", "version of the release, such as v1.2.3")
	out := flag.String("out", "bin/release", "directory for the archives and the manifest")
	only := flag.String("platforms", platforms, "operating systems and processors, as GOOS/GOARCH")
	from := flag.String("from", "https://github.com/nodefirmware/node-firmware-operator/releases/download", "address of the releases, with a directory for each version")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := release(ctx, *version, *out, *from, strings.Fields(*only)); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
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
