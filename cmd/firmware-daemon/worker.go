package main

import (
	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

// workerCommand is the command as which this program starts itself for each write to a device.
func workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "worker",
		Short:  "Run a tool that writes to a device; started only by run and apply",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE:   func(*cobra.Command, []string) error { return command.RunWorker() },
	}
}

// workerArgv is the command line that starts this program as a worker, even if its file was replaced meanwhile.
func workerArgv() []string { return []string{"/proc/self/exe", "worker"} }
