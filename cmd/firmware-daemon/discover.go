package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/node/daemon"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

func discoverCommand() *cobra.Command {
	var m config.Machine
	var output string
	c := &cobra.Command{
		Use:   "discover",
		Short: "List the devices of this machine and their firmware",
		Long: "List the network adapters, drives and system firmware of this machine with the firmware they run and store.\n" +
			"Works without root, but most devices can be read only by root; a device that cannot be read is listed with the reason.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			format, err := cli.ParseFormat(output)
			if err != nil {
				return err
			}
			found, err := scan(c.Context(), m)
			if err != nil {
				return err
			}
			result, err := cli.Discover(found)
			return errors.Join(cli.Print(c.OutOrStdout(), format, result), err)
		},
	}
	machineFlags(c, &m, "/")
	outputFlag(c, &output)
	return c
}

// scan reads the devices of the machine.
func scan(ctx context.Context, m config.Machine) (host.Inventory, error) {
	hardware, err := hardwareOf(ctx, m)
	if err != nil {
		return host.Inventory{}, err
	}
	return hardware.Host.Scan(ctx)
}

// hardwareOf is the machine, with the tools that are supported. The standard error output gets a line for each other tool.
func hardwareOf(ctx context.Context, m config.Machine) (*daemon.Hardware, error) {
	tools, drivers, err := toolsOf(m)
	if err == nil {
		tools, _, err = daemon.Survey(ctx, sysfs.DirFS(m.HostRoot), tools, drivers)
	}
	if err != nil {
		return nil, err
	}
	return daemon.NewHardware(sysfs.DirFS(m.HostRoot), tools, drivers, m.NVMeTransports...)
}

// toolsOf is how the tools of the machine are run, and its drivers.
func toolsOf(m config.Machine) (command.Config, daemon.DriverList, error) {
	if err := m.Validate(); err != nil {
		return command.Config{}, nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	plugins, err := pluginsOf(m, log, forgetPlugins)
	if err != nil {
		return command.Config{}, nil, err
	}
	drivers, err := driversOf(m, plugins)
	if err != nil {
		return command.Config{}, nil, err
	}
	tools, err := daemon.Outliving(command.Config{Path: m.Tools(), Own: ownArgv(), Log: log}, workerArgv(), nil)
	return tools, drivers, err
}

func outputFlag(c *cobra.Command, output *string) {
	c.Flags().StringVarP(output, "output", "o", string(cli.Table), "table, json or yaml")
}
