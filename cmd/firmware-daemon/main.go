// Command firmware-daemon keeps the firmware of one machine: as the daemon of a Node, or by hand without a cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/node/daemon"
	"github.com/nodefirmware/node-firmware-operator/internal/sourcefile"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
)

func main() {
	// The first signal asks for a safe end, the second one ends the process at once. A write to a device survives both.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := root().ExecuteContext(ctx)
	if err != nil && !errors.As(err, new(exitError)) {
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	os.Exit(exitCode(err))
}

func root() *cobra.Command {
	c := &cobra.Command{
		Use:           "firmware-daemon",
		Short:         "Keep the firmware of this machine",
		Version:       version.Current(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	c.AddCommand(runCommand(), jobCommand(), guardCommand(), discoverCommand(), settingsCommand(), planCommand(), applyCommand(), stepsCommand(), workerCommand(), toolCommand(), stateCommand(),
		archiveCommand(), sourcefile.Command())
	return c
}

// machineFlags adds the flags that say where the machine's hardware, tools and state are found.
func machineFlags(c *cobra.Command, m *config.Machine, hostRoot string) {
	c.Flags().StringVar(&m.HostRoot, "host-root", hostRoot, "directory with the machine's /sys and /proc")
	c.Flags().StringVar(&m.StateDir, "state-dir", "/var/lib/node-firmware", "directory for the journal and the images")
	c.Flags().StringVar(&m.ToolPath, "tool-path", config.DefaultToolPath, "directories of the vendor tools, separated by colons")
	c.Flags().StringVar(&m.ProfileDir, "profile-dir", "/etc/node-firmware/profiles",
		"directory with tool profiles; there may be none, and empty looks for none")
	c.Flags().StringSliceVar(&m.NVMeTransports, "nvme-transports", []string{"pcie"},
		"transports of the NVMe drives that belong to this machine: pcie, tcp, rdma, fc, loop")
	c.Flags().StringVar(&m.PluginDir, "plugin-dir", "",
		"directory with the sockets of plugins; empty for \"plugins\" in the state directory, \""+config.NoPlugins+"\" for none")
	c.Flags().StringSliceVar(&m.DisabledDrivers, "disable-driver", nil, "name of a driver not to use; may be repeated")
	c.Flags().StringVar(&m.FirmwarePasswordFile, "firmware-password-file", "",
		"file with the administrator's password of the system firmware, for its settings; not readable by others, and empty for none")
}

// exitCode is the exit code of a command: 0 success, 1 failure, 2 a source of which a person has to fill in something, 3 stopped before a reboot that the user has to make or
// to allow, 4 interrupted at a safe point. After 3 and 4, running the command again continues it.
func exitCode(err error) int {
	var tool exitError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, sourcefile.ErrFillIn):
		return 2
	case errors.Is(err, cli.ErrRebootPending):
		return 3
	case errors.Is(err, cli.ErrInterrupted), errors.Is(err, daemon.ErrInterrupted):
		return 4
	case errors.As(err, &tool):
		return int(tool)
	}
	return 1
}
