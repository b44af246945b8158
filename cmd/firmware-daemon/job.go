package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/node/daemon"
)

func jobCommand() *cobra.Command {
	var d config.Daemon
	var name string
	c := &cobra.Command{
		Use:   "job --name JOB",
		Short: "Execute one FirmwareJob of this machine's Node and exit",
		Long: "Execute one FirmwareJob, with the journal, maintenance, progress and reports of the daemon, and exit when its result is\n" +
			"in the FirmwareJob. The exit code is 0 whether the job completed or failed. An interrupted job is continued. The pods of\n" +
			"the update strategy pod run this. It takes all flags of run, and fails while a daemon executes jobs here.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if name == "" {
				return errors.New("--name is missing: name the FirmwareJob to execute")
			}
			o, err := daemonOptions(d)
			if err != nil {
				return err
			}
			return daemon.RunJob(c.Context(), o, name)
		},
	}
	daemonFlags(c, &d)
	c.Flags().StringVar(&name, "name", "", "name of the FirmwareJob (required)")
	return c
}
