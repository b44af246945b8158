// Command maintenanceoperator prints the manager of the maintenance-operator that the contract of a maintenance is run against. It
// builds it once, which takes a few minutes, from the commit that the stand-in of the lab was written after: the Go module proxy has
// no such module. An argument names another git repository to clone, such as a mirror.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
)

const (
	origin = "https://github.com/Mellanox/maintenance-operator"
	commit = "e15d07b286c864bc3bb02c39469b7c319204d86b"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	from := origin
	if len(os.Args) > 1 {
		from = os.Args[1]
	}
	binary, err := build(ctx, from)
	if err != nil {
		fmt.Fprintln(os.Stderr, "maintenanceoperator:", err)
		os.Exit(1)
	}
	fmt.Println(binary)
}

func build(ctx context.Context, from string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache: %w", err)
	}
	binary := filepath.Join(cache, "node-firmware-operator", "maintenance-operator", commit, "manager")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	source, err := os.MkdirTemp("", "maintenance-operator-")
	if err != nil {
		return "", fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(source)
	for _, argv := range [][]string{
		{"git", "clone", "--quiet", from, source},
		{"git", "-C", source, "checkout", "--quiet", commit},
		{"go", "-C", source, "build", "-o", binary + ".new", "./cmd/maintenance-manager"},
	} {
		c := exec.CommandContext(ctx, argv[0], argv[1:]...)
		c.Stdout, c.Stderr, c.Env = os.Stderr, os.Stderr, append(os.Environ(), "CGO_ENABLED=0")
		if err := c.Run(); err != nil {
			return "", fmt.Errorf("run %s: %w", argv[0], err)
		}
	}
	if err := os.Rename(binary+".new", binary); err != nil {
		return "", fmt.Errorf("keep manager: %w", err)
	}
	return binary, nil
}
