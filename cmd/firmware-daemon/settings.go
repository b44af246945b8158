package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
)

func settingsCommand() *cobra.Command {
	var m config.Machine
	var output string
	c := &cobra.Command{
		Use:   "settings [DEVICE]",
		Short: "List the settings of the devices of this machine",
		Long: "List what the devices of this machine are told to be: each setting with the value in force, the one after the next activation,\n" +
			"the default, and what a change of it costs. DEVICE is a unique id, a PCI address or a name. A device whose settings cannot be read\n" +
			"is listed with the reason. Nothing is changed.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			format, err := cli.ParseFormat(output, cli.Wide)
			if err != nil {
				return err
			}
			hardware, err := hardwareOf(c.Context(), m)
			if err != nil {
				return err
			}
			found, err := hardware.Host.Scan(c.Context())
			if err != nil {
				return err
			}
			device := ""
			if len(args) > 0 {
				device = args[0]
			}
			result, err := cli.ReadSettings(c.Context(), found, hardware.Drivers, device)
			if format == cli.Wide {
				result = result.Wide()
			}
			return errors.Join(cli.Print(c.OutOrStdout(), format, result), err)
		},
	}
	machineFlags(c, &m, "/")
	c.Flags().StringVarP(&output, "output", "o", string(cli.Table), "table, wide, json or yaml")
	return c
}
