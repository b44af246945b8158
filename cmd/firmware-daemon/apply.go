package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/reboot"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
)

// maxSoak is the longest soak, as in the API.
const maxSoak = time.Hour

func applyCommand() *cobra.Command {
	var m config.Machine
	var desired desiredFlags
	var output string
	var allowReboot bool
	var checkTimeout, soak time.Duration
	c := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Update the firmware and settings of this machine as the templates say",
		Long: "Fetch and verify the images, flash and configure what differs, activate it and read it back. It does not drain the machine: move workloads away first.\n" +
			"Without --reboot it stops before a reboot and exits with 3; run it again after the reboot to verify.\n" +
			"Ctrl-C stops at the next safe point and exits with 4; a running write is finished first. Run it again to continue.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			format, err := cli.ParseFormat(output)
			if err != nil {
				return err
			}
			if err := config.ValidateCheckTimeout(checkTimeout); err != nil {
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
			catalog, err := catalogOf(m, nil)
			if err != nil {
				return err
			}
			self, err := state.ReadMachine(hardware.FS)
			if err != nil {
				return err
			}
			a := cli.Applying{
				Docs: docs, Catalog: catalog, Labels: desired.labels, StateDir: m.StateDir, Machine: self, Host: hardware, Scan: hardware.Host.Scan,
				Uses: hardware.Host, Arrays: hardware.Host,
				Drivers: hardware.Drivers, Writes: hardware.Runner, Steps: c.OutOrStdout(), Soak: soak,
			}
			if format != cli.Table {
				a.Steps = c.ErrOrStderr()
			}
			a.Checks = &health.Checks{
				FS: hardware.FS, Runner: hardware.Runner, Launch: health.Launch(m.HostRoot), Timeout: checkTimeout,
				Advise: func(advice health.Advice) { _, _ = fmt.Fprintf(a.Steps, "advice: %s\n", advice.Message) },
			}
			if soak < 0 || soak > maxSoak {
				return fmt.Errorf("--soak must be from 0s to %s", maxSoak)
			}
			if allowReboot {
				a.Rebooter = reboot.Host{Runner: hardware.Runner, Systemctl: reboot.Direct()}
			}
			result, err := cli.Apply(c.Context(), a)
			if result.Result == "" {
				return err
			}
			return errors.Join(cli.Print(c.OutOrStdout(), format, result), err)
		},
	}
	machineFlags(c, &m, "/")
	outputFlag(c, &output)
	desired.add(c)
	c.Flags().BoolVar(&allowReboot, "reboot", false, "reboot this machine when an image needs that")
	c.Flags().DurationVar(&soak, "soak", time.Minute, "how long the machine must look healthy without interruption after the update")
	c.Flags().DurationVar(&checkTimeout, "check-timeout", time.Minute, "time limit of each executable of the health check")
	return c
}
