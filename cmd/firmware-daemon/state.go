package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

func stateCommand() *cobra.Command {
	var m config.Machine
	var output string
	c := &cobra.Command{
		Use:   "state",
		Short: "Show the daemon's records of this machine",
		Long: "Show the job in progress and its step, the last verdict, the record of each device, and the archive.\n" +
			"It reads only the state directory and no device, changes nothing, and works while the daemon runs.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			format, err := cli.ParseFormat(output)
			if err != nil {
				return err
			}
			if err := m.Validate(); err != nil {
				return err
			}
			bootID, err := sysfs.BootID(os.DirFS(m.HostRoot))
			if err != nil {
				c.PrintErrln("The boot id cannot be read, so it is not known whether the verdict is from this boot:", err)
			}
			result, err := cli.ReadState(m.StateDir, bootID)
			if result.Directory == "" {
				return err
			}
			return errors.Join(cli.Print(c.OutOrStdout(), format, result), err)
		},
	}
	machineFlags(c, &m, "/")
	outputFlag(c, &output)
	return c
}
