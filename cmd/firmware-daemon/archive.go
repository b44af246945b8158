package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

func archiveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "archive",
		Short: "List, back up and restore earlier firmware of this machine",
		Args:  cobra.NoArgs,
	}
	c.AddCommand(archiveListCommand(), archiveBackupCommand(), archiveRestoreCommand(),
		archiveEditCommand("pin", "Keep an archived image when newer ones are archived", cli.Pin),
		archiveEditCommand("unpin", "Allow an archived image to be removed when newer ones are archived", cli.Unpin))
	return c
}

func archiveListCommand() *cobra.Command {
	var m config.Machine
	var output string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the archived images",
		Long:  "List the archived images. Their content is not read: restore does that. Works while the daemon runs.",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			format, err := cli.ParseFormat(output)
			if err != nil {
				return err
			}
			if err := m.Validate(); err != nil {
				return err
			}
			result, err := cli.ListArchive(m.StateDir)
			if err != nil {
				return err
			}
			return cli.Print(c.OutOrStdout(), format, result)
		},
	}
	machineFlags(c, &m, "/")
	outputFlag(c, &output)
	return c
}

func archiveBackupCommand() *cobra.Command {
	var m config.Machine
	var output, to string
	c := &cobra.Command{
		Use:   "backup DEVICE",
		Short: "Read the firmware that a device runs into the archive, or into a directory",
		Long: "Read the firmware that the device with the unique id DEVICE runs into the archive, or with --to into a new directory.\n" +
			"It fails while the daemon runs, if the target exists, and for firmware that a failed job left behind.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			format, err := cli.ParseFormat(output)
			if err != nil {
				return err
			}
			a, err := archiving(c, m)
			if err != nil {
				return err
			}
			result, err := a.Backup(c.Context(), args[0], to)
			if err != nil {
				return err
			}
			return cli.Print(c.OutOrStdout(), format, result)
		},
	}
	machineFlags(c, &m, "/")
	outputFlag(c, &output)
	c.Flags().StringVar(&to, "to", "", "new directory to back up to, instead of the archive")
	return c
}

func archiveRestoreCommand() *cobra.Command {
	var m config.Machine
	var output, from string
	c := &cobra.Command{
		Use:   "restore ENTRY | --from DIR",
		Short: "Write an archived image back to its device",
		Long: "Write an archived image back to the device it was read from, and print how to activate it. It does not drain the machine:\n" +
			"move workloads away first. It fails while the daemon runs, for an image that is damaged or of other hardware, and for\n" +
			"the evidence of a failed update. The daemon updates the device again if a template assigns another version to it.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 == (from != "") {
				return errors.New("name either an entry of the archive or a directory with --from")
			}
			format, err := cli.ParseFormat(output)
			if err != nil {
				return err
			}
			a, err := archiving(c, m)
			if err != nil {
				return err
			}
			result, err := restore(c.Context(), a, args, from)
			if err != nil {
				return err
			}
			return cli.Print(c.OutOrStdout(), format, result)
		},
	}
	machineFlags(c, &m, "/")
	outputFlag(c, &output)
	c.Flags().StringVar(&from, "from", "", "directory that backup --to made, instead of an entry of the archive")
	return c
}

func restore(ctx context.Context, a cli.Archiving, args []string, from string) (cli.Restored, error) {
	if from != "" {
		return a.RestoreFrom(ctx, from)
	}
	return a.Restore(ctx, args[0])
}

func archiveEditCommand(verb, short string, edit func(stateDir string, this state.Machine, entry string) error) *cobra.Command {
	var m config.Machine
	c := &cobra.Command{
		Use:   verb + " ENTRY",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := m.Validate(); err != nil {
				return err
			}
			this, err := state.ReadMachine(sysfs.DirFS(m.HostRoot))
			if err != nil {
				return err
			}
			return edit(m.StateDir, this, args[0])
		},
	}
	machineFlags(c, &m, "/")
	return c
}

func archiving(c *cobra.Command, m config.Machine) (cli.Archiving, error) {
	hardware, err := hardwareOf(c.Context(), m)
	if err != nil {
		return cli.Archiving{}, err
	}
	this, err := state.ReadMachine(hardware.FS)
	if err != nil {
		return cli.Archiving{}, err
	}
	return cli.Archiving{
		StateDir: m.StateDir, Machine: this, BootID: hardware.BootID, Scan: hardware.Host.Scan, Drivers: hardware.Drivers, Writes: hardware.Runner,
		Log: c.ErrOrStderr(),
	}, nil
}
