package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/node/daemon"
	"github.com/nodefirmware/node-firmware-operator/internal/node/guard"
)

func guardCommand() *cobra.Command {
	var d config.Daemon
	var server string
	c := &cobra.Command{
		Use:   guard.Command,
		Short: "Finish a job without the API server; started only by the kubelet, from a static pod",
		Long: "Execute the job in the journal while no other process has the state directory open and the API server does not answer.\n" +
			"It takes all flags of run, and uses nothing of the cluster.",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if server == "" {
				return errors.New("--" + guard.ServerFlag + " is missing: give the URL at which the kubelet reaches the API server")
			}
			o, err := nodeOptions(d, forgetPlugins)
			if err != nil {
				return err
			}
			return daemon.RunGuard(c.Context(), o, server)
		},
	}
	daemonFlags(c, &d)
	c.Flags().StringVar(&server, guard.ServerFlag, "", "URL at which the kubelet reaches the API server (required)")
	return c
}
