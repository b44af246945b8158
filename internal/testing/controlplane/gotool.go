package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// goCommand runs the go command in a directory of the checkout and returns its standard output. Settings of the
// caller's build that would break this one, such as -mod=vendor in GOFLAGS or another GOOS, are removed; those of the
// machine, such as GOPROXY, GOCACHE and GOTOOLCHAIN, are kept.
func (l *Locator) goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(l.ModuleRoot, dir)
	cmd.Env = goEnvironment(os.Environ())
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", fmt.Errorf("run go %s in %s: %w: %s", strings.Join(args, " "), dir, err, tail(stderr.String(), 20))
	}
	return stdout.String(), nil
}

// goEnvironment is env without what belongs to the caller's own build.
func goEnvironment(env []string) []string {
	caller := []string{"GOFLAGS", "GOWORK", "GOOS", "GOARCH", "GO111MODULE", "GOEXPERIMENT", "CGO_ENABLED", "GOCOVERDIR"}
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(caller, name)
	})
	// GOFLAGS is set rather than left out: an empty one would be filled from the user's go env file.
	return append(env, "GOFLAGS=-mod=readonly", "GOWORK=off", "CGO_ENABLED=0")
}
