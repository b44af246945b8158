// Command firmware-plugin speaks to a plugin: one call of firmware-daemon, or of a person who looks at a plugin. It is a program
// of its own so that the daemon, of which every node has one, need not hold what only nodes with plugins use.
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
		// Who follows a write stays until its end, as a vendor's tool would.
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	os.Exit(plugintool.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
