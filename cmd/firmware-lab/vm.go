package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm"
)

func vmCommand() *cobra.Command {
	var p place
	c := &cobra.Command{
		Use:   "vm",
		Short: "Run the daemon on a real kernel: update emulated devices of a virtual machine and reboot it",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.run(c, "lab", func() error {
				return vm.Run(c.Context(), vm.Options{Dir: p.dir, BinDir: p.binDir, CacheDir: p.cacheDir, Only: p.only, Out: c.OutOrStdout()})
			})
		},
	}
	p.bind(c.Flags(), vm.Groups())
	c.Flags().StringVar(&p.cacheDir, "cache-dir", "", "directory for the kernel and the tools (default: in the user's cache)")
	c.AddCommand(&cobra.Command{
		Use: "relay ADDRESS", Short: "Connect standard input and output with an address; started only by the virtual machine",
		Args: cobra.ExactArgs(1), Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error { return vm.Relay(args[0], os.Stdin, os.Stdout) },
	})
	return c
}
