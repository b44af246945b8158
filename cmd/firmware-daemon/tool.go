package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/attributes"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/devlink"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/nvmetool"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/pci"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
)

// ownTool is a program inside this one. It returns its exit code. The context ends when the process is asked to end; a
// tool that writes to a device ignores that.
type ownTool func(ctx context.Context, args []string, stdout, stderr io.Writer) int

// ownTools are the tools of drivers that write through the kernel: like a vendor's tool, such a write has a process of
// its own, which outlives this one.
var ownTools = map[string]ownTool{
	attributes.Tool: attributes.Main, devlink.Tool: devlink.Main, nvmetool.Name: nvmetool.Main, pci.Tool: pci.Main,
}

// ownArgv is the command line of each of them, valid even if this program's file was replaced meanwhile, and of the
// program for plugins, which is in the same directory.
func ownArgv() map[string][]string {
	out := make(map[string][]string, len(ownTools)+1)
	if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), plugin.Tool); isFile(beside) {
			out[plugin.Tool] = []string{beside}
		}
	}
	for name := range ownTools {
		out[name] = []string{"/proc/self/exe", "tool", name}
	}
	return out
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func toolCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "tool NAME [ARGUMENTS]",
		Short:              "Run a tool that is part of this program; started only by run and apply",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || ownTools[args[0]] == nil {
				names := slices.Sorted(maps.Keys(ownTools))
				return fmt.Errorf("run own tool: name one of %s", strings.Join(names, ", "))
			}
			if code := ownTools[args[0]](c.Context(), args[1:], os.Stdout, os.Stderr); code != 0 {
				return exitError(code)
			}
			return nil
		},
	}
}

// exitError is the exit code of a tool that has printed its error itself.
type exitError int

// Error returns the code as text.
func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

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
