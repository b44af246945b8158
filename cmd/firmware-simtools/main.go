// Command firmware-simtools is every vendor tool of a simulated machine: it is linked into <machine>/usr/bin under the
// tools' names.
package main

import (
	"fmt"
	"os"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

func main() {
	if !simhost.IsTool(os.Args[0]) {
		fmt.Fprintf(os.Stderr, "firmware-simtools: link this program under the name of a tool, one of %v\n", simhost.Tools())
		os.Exit(2)
	}
	os.Exit(simhost.RunTool(os.Args, os.Stdout, os.Stderr))
}
