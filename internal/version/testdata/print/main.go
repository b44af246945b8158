// Command print prints the version it was built with.
package main

import (
	"os"

	"github.com/nodefirmware/node-firmware-operator/internal/version"
)

func main() { _, _ = os.Stdout.WriteString(version.Current()) }
