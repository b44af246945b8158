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

// run runs a lab of this name. Its directory is kept when it fails, and when it was named.
func (p *place) run(c *cobra.Command, name, cacheName string, lab func() error) error {
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
	temporary := p.dir == ""
	if temporary {
		if p.dir, err = os.MkdirTemp("", "firmware-lab-"+name+"-"); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	if err := lab(); err != nil {
		fmt.Fprintf(c.ErrOrStderr(), "Logs of this run are kept in %s.\n", p.dir)
		return err
	}
	if temporary {
		return os.RemoveAll(p.dir)
	}
	return nil
}
