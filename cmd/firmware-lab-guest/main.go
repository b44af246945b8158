// Command firmware-lab-guest is the first process of the lab's virtual machine, and the few host programs that the
// daemon runs there. It has no use outside of it.
package main

import (
	"os"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
)

func main() { os.Exit(guest.Main(os.Args)) }
