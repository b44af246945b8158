package main

import (
	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/node/daemon"
	"github.com/nodefirmware/node-firmware-operator/internal/node/steps"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

func stepsCommand() *cobra.Command {
	var m config.Machine
	var priorities config.StepPriorities
	var output string
	c := &cobra.Command{
		Use:   "steps",
		Short: "List the steps an update runs, and the disabled ones",
		Long: "List the steps of this machine in the order they run. Give the same priorities as to run.\n" +
			"It reads no device and changes nothing.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			format, err := cli.ParseFormat(output)
			if err != nil {
				return err
			}
			catalog, err := catalogOf(m, priorities)
			if err != nil {
				return err
			}
			return cli.Print(c.OutOrStdout(), format, cli.ListSteps(catalog))
		},
	}
	machineFlags(c, &m, "/")
	outputFlag(c, &output)
	stepFlags(c, &priorities)
	return c
}

func stepFlags(c *cobra.Command, priorities *config.StepPriorities) {
	c.Flags().StringArrayVar((*[]string)(priorities), "step-priority", nil,
		"priority of a step as INTERFACE.STEP=PRIORITY, 0 for off, such as nic.flash=820; may be repeated")
}

// catalogOf loads the steps of the machine. It does not read its devices.
func catalogOf(m config.Machine, priorities config.StepPriorities) (plan.Catalog, error) {
	byKey, err := priorities.Parse()
	if err != nil {
		return plan.Catalog{}, err
	}
	tools, drivers, err := toolsOf(m)
	if err != nil {
		return plan.Catalog{}, err
	}
	hardware, err := daemon.NewHardware(sysfs.DirFS(m.HostRoot), tools, drivers, m.NVMeTransports...)
	if err != nil {
		return plan.Catalog{}, err
	}
	return steps.NewCatalog(hardware.Drivers, byKey)
}
