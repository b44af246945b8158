// Command release gives its memory back.
package main

import (
	"fmt"
	"os"

	"github.com/nodefirmware/node-firmware-operator/internal/node/memory"
)

func main() {
	for range 2 {
		if err := memory.Release(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fmt.Println("lives")
}
