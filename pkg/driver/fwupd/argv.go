package fwupd

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

const tool = "fwupdtool"

// queryTimeout: fwupdtool probes all hardware it knows before it answers.
const queryTimeout = 3 * time.Minute

// getDevices lists what fwupd can update.
func getDevices() command.Command {
	return command.Command{Argv: []string{tool, "get-devices", "--json"}, Timeout: queryTimeout}
}

// getHistory lists what fwupd staged and what became of it. It is asked at every scan, so all plugins but the one for
// UEFI capsules, which would probe every device of the machine, stay out of it.
func getHistory() command.Command {
	return command.Command{Argv: []string{tool, "get-history", "--json", "--plugins", "uefi_capsule"}, Timeout: queryTimeout}
}

// getDetails reads an archive. With --json it prints the same text, but no progress between.
func getDetails(path string) command.Command {
	return command.Command{Argv: []string{tool, "get-details", path, "--json"}, Timeout: queryTimeout}
}

// install stages an archive for a device.
func install(path, deviceID, lock string) command.Command {
	return command.Command{
		Argv: []string{tool, "install", path, deviceID, "--json", "--no-reboot-check"},
		Kind: command.Write,
		Lock: lock,
	}
}

// installOlder is install of an archive that fwupd may take for older than what runs; see takesForOlder. The firmware
// itself still refuses what is below the lowest version it takes.
func installOlder(path, deviceID, lock string) command.Command {
	c := install(path, deviceID, lock)
	c.Argv = append(c.Argv, "--allow-older")
	return c
}
