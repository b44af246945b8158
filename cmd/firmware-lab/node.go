package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/realnode"
)

func nodeCommand() *cobra.Command {
	var o realnode.Options
	c := &cobra.Command{
		Use:   "node",
		Short: "Run the shipped images on a real node: a virtual machine with systemd, containerd and a kubelet",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Out = c.OutOrStdout()
			if len(o.Images) == 0 {
				return errors.New("name archives of the operator's and the daemon's images with --images; make images writes them")
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find own binary: %w", err)
			}
			o.BinDir = filepath.Dir(self)
			cache, err := os.UserCacheDir()
			if err != nil {
				return fmt.Errorf("find the cache directory: %w", err)
			}
			o.DeviceCacheDir = filepath.Join(cache, "node-firmware-operator", "lab")
			if o.CacheDir == "" {
				o.CacheDir = filepath.Join(cache, "node-firmware-operator", "node")
			}
			temporary := o.Dir == ""
			if temporary {
				if o.Dir, err = os.MkdirTemp("", "firmware-lab-node-"); err != nil {
					return fmt.Errorf("make directory: %w", err)
				}
			}
			if err := realnode.Prepare(c.Context(), o); err != nil {
				return err
			}
			err = realnode.Isolate(c.Context(), self, "node", "run", "--dir="+o.Dir, "--only="+strings.Join(o.Only, ","),
				"--step-limit="+o.StepLimit.String())
			if err != nil {
				fmt.Fprintf(c.ErrOrStderr(), "Logs of this run are kept in %s.\n", o.Dir)
				return err
			}
			if temporary {
				return os.RemoveAll(o.Dir)
			}
			return nil
		},
	}
	c.PersistentFlags().StringVar(&o.Dir, "dir", "", "directory for this run's disks and logs; kept at the end (default: a temporary one, removed)")
	c.PersistentFlags().StringSliceVar(&o.Only, "only", nil, "groups of checks to run: "+strings.Join(realnode.Groups(), ", ")+" (default: all)")
	c.PersistentFlags().DurationVar(&o.StepLimit, "step-limit", realnode.DefaultStepLimit, "how long a check waits for one thing; a busy machine needs more")
	c.Flags().StringVar(&o.CacheDir, "cache-dir", "", "directory for the machine's disk (default: in the user's cache)")
	c.Flags().StringSliceVar(&o.Images, "images", nil, "archives of the operator's and the daemon's images as docker save writes them")
	c.AddCommand(&cobra.Command{
		Use: "run", Short: "Run the checks; started only by the command above, in namespaces of its own",
		Args: cobra.NoArgs, Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Out = c.OutOrStdout()
			return realnode.Run(c.Context(), o)
		},
	})
	return c
}
