package main

import (
	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

// workerCommand is what this program starts itself as for each write to a device.
func workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "worker",
		Short:  "Run a tool that writes to a device; started by run and apply alone",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE:   func(*cobra.Command, []string) error { return command.RunWorker() },
	}
}

// workerArgv starts this program as a worker, also when its file was replaced meanwhile.
func workerArgv() []string { return []string{"/proc/self/exe", "worker"} }
