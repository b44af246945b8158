package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// place is where a lab with a virtual machine keeps its files, and what of it runs.
type place struct {
	// dir is for one run, cacheDir for what is the same in every run; binDir holds the programs, of which self is this one.
	dir, cacheDir, binDir, self string
	// only names groups of checks; empty for all.
	only []string
}

func (p *place) bind(flags *pflag.FlagSet, groups []string) {
	flags.StringVar(&p.dir, "dir", "", "directory for this run's disks and logs; kept at the end (default: a temporary one, removed)")
	flags.StringSliceVar(&p.only, "only", nil, "groups of checks to run: "+strings.Join(groups, ", ")+" (default: all)")
}

// cache is a directory in the user's cache.
func cache(name string) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w; name one with --cache-dir", err)
	}
	return filepath.Join(dir, "node-firmware-operator", name), nil
}

// workDir is the directory of a run: the named one, which stays, or a temporary one, which remove removes.
func workDir(named string) (dir string, remove func() error, err error) {
	if named != "" {
		return named, func() error { return nil }, os.MkdirAll(named, 0o755)
	}
	dir, err = os.MkdirTemp("", "firmware-lab-")
	return dir, func() error { return os.RemoveAll(dir) }, err
}

// program is the path of a program beside this one.
func program(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find own binary: %w", err)
	}
	return filepath.Join(filepath.Dir(self), name), nil
}

// run runs a lab. Its directory is kept when it fails, and when it was named.
func (p *place) run(c *cobra.Command, cacheName string, lab func() error) error {
	var err error
	if p.self, err = os.Executable(); err != nil {
		return fmt.Errorf("find own binary: %w", err)
	}
	p.binDir = filepath.Dir(p.self)
	if p.cacheDir == "" {
		if p.cacheDir, err = cache(cacheName); err != nil {
			return err
		}
	}
	var remove func() error
	if p.dir, remove, err = workDir(p.dir); err != nil {
		return err
	}
	if err := lab(); err != nil {
		fmt.Fprintf(c.ErrOrStderr(), "Logs of this run are kept in %s.\n", p.dir)
		return err
	}
	return remove()
}
