package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab"
)

func upCommand() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "up",
		Short: "Start control plane, operator and simulated nodes, and keep them running until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if err := o.complete(c); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, o.removeDir()) }()
			l, err := lab.Up(c.Context(), o.Options)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "The lab is up. In another shell:\n\n  export KUBECONFIG=%s\n  kubectl get firmware\n  bin/kubectl-firmware ui\n\nLogs and machines are in %s. Ctrl-C ends the lab.\n", l.KubeconfigPath(), o.Dir)
			<-c.Context().Done()
			fmt.Fprintln(c.OutOrStdout(), "Stopping …")
			return l.Close()
		},
	}
	o.register(c, 5*time.Second)
	return c
}
