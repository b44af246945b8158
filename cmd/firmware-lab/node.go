package main

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/realnode"
)

func nodeCommand() *cobra.Command {
	var p place
	var images []string
	var stepLimit time.Duration
	c := &cobra.Command{
		Use:   "node",
		Short: "Run the shipped images on a real node: a virtual machine with systemd, containerd and a kubelet",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(images) == 0 {
				return errors.New("name archives of the operator's and the daemon's images with --images; make images writes them")
			}
			return p.run(c, "node", func() error {
				devices, err := cache("lab")
				if err != nil {
					return err
				}
				err = realnode.Prepare(c.Context(), realnode.Options{
					Dir: p.dir, CacheDir: p.cacheDir, DeviceCacheDir: devices, BinDir: p.binDir, Images: images, Only: p.only, Out: c.OutOrStdout(),
				})
				if err != nil {
					return err
				}
				return realnode.Isolate(c.Context(), p.self, "node", "run", "--dir="+p.dir,
					"--only="+strings.Join(p.only, ","), "--step-limit="+stepLimit.String())
			})
		},
	}
	p.bind(c.PersistentFlags(), realnode.Groups())
	c.PersistentFlags().DurationVar(&stepLimit, "step-limit", realnode.DefaultStepLimit, "how long a check waits for one thing; a busy machine needs more")
	c.Flags().StringVar(&p.cacheDir, "cache-dir", "", "directory for the machine's disk (default: in the user's cache)")
	c.Flags().StringSliceVar(&images, "images", nil, "archives of the operator's and the daemon's images as docker save writes them")
	c.AddCommand(&cobra.Command{
		Use: "run", Short: "Run the checks; started only by the command above, in namespaces of its own",
		Args: cobra.NoArgs, Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			return realnode.Run(c.Context(), realnode.Options{Dir: p.dir, Only: p.only, StepLimit: stepLimit, Out: c.OutOrStdout()})
		},
	})
	return c
}
