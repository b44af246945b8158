// Command firmware-plugin makes one call to a plugin, for firmware-daemon or for a person who inspects a plugin. It is
// a separate program so that the daemon, which runs on every node, does not contain what only nodes with plugins need.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/plugintool"
)

func main() {
	if len(os.Args) > 1 && plugin.Verb(os.Args[1]).Writes() {
		// The follower of a write stays until the write ends, as a vendor's tool would.
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	os.Exit(plugintool.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
