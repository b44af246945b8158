package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm"
)

func vmCommand() *cobra.Command {
	var o vm.Options
	c := &cobra.Command{
		Use:   "vm",
		Short: "Run the daemon on a real kernel: update emulated devices of a virtual machine and reboot it",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Out = c.OutOrStdout()
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find own binary: %w", err)
			}
			o.BinDir = filepath.Dir(self)
			if o.CacheDir == "" {
				cache, err := os.UserCacheDir()
				if err != nil {
					return fmt.Errorf("find the cache directory: %w; name one with --cache-dir", err)
				}
				o.CacheDir = filepath.Join(cache, "node-firmware-operator", "lab")
			}
			temporary := o.Dir == ""
			if temporary {
				if o.Dir, err = os.MkdirTemp("", "firmware-lab-vm-"); err != nil {
					return fmt.Errorf("make directory: %w", err)
				}
			}
			if err := vm.Run(c.Context(), o); err != nil {
				fmt.Fprintf(c.ErrOrStderr(), "Logs of this run are kept in %s.\n", o.Dir)
				return err
			}
			if temporary {
				return os.RemoveAll(o.Dir)
			}
			return nil
		},
	}
	c.Flags().StringVar(&o.Dir, "dir", "", "directory for this run's disks and logs; kept at the end (default: a temporary one, removed)")
	c.Flags().StringVar(&o.CacheDir, "cache-dir", "", "directory for the kernel and the tools (default: in the user's cache)")
	c.Flags().StringSliceVar(&o.Only, "only", nil, "groups of checks to run: "+strings.Join(vm.Groups(), ", ")+" (default: all)")
	c.AddCommand(&cobra.Command{
		Use: "relay ADDRESS", Short: "Connect standard input and output with an address; started only by the virtual machine",
		Args: cobra.ExactArgs(1), Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error { return vm.Relay(args[0], os.Stdin, os.Stdout) },
	})
	return c
}
