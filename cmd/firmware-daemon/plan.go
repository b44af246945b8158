package main

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
)

// desiredFlags are the flags that name the desired firmware of this machine.
type desiredFlags struct {
	files  []string
	labels map[string]string
}

func (d *desiredFlags) add(c *cobra.Command) {
	c.Flags().StringSliceVarP(&d.files, "filename", "f", nil, "file with FirmwareTemplates, ConfigurationTemplates and FirmwareSources; may be repeated (required)")
	c.Flags().StringToStringVar(&d.labels, "node-labels", nil, "labels the machine's Node would have, as k=v,...")
	if err := c.MarkFlagRequired("filename"); err != nil {
		panic(err) // no such flag: a mistake in this function
	}
}

func planCommand() *cobra.Command {
	var m config.Machine
	var desired desiredFlags
	var output string
	c := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Show what apply would do, and change nothing",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			format, err := cli.ParseFormat(output)
			if err != nil {
				return err
			}
			docs, err := cli.Load(desired.files)
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
			catalog, err := catalogOf(m, nil)
			if err != nil {
				return err
			}
			has, err := cli.ReadDeclared(c.Context(), found, docs, desired.labels, hardware.Drivers)
			if err != nil {
				return err
			}
			p, err := cli.MakePlan(found, docs, cli.Describe(docs.Sources), desired.labels, has)
			p.Order(catalog)
			return errors.Join(cli.Print(c.OutOrStdout(), format, p), cmp.Or(err, p.Unread()))
		},
	}
	machineFlags(c, &m, "/")
	outputFlag(c, &output)
	desired.add(c)
	return c
}
