package fwupd

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

const (
	tool         = "fwupdtool"
	identifyTool = "sg_sat_identify"
)

// queryTimeout: fwupdtool probes all hardware it knows before it answers.
const queryTimeout = 3 * time.Minute

// getDevices lists what fwupd can update.
func getDevices() command.Command {
	return command.Command{Argv: []string{tool, "get-devices", "--json"}, Timeout: queryTimeout}
}

// getHistory lists what fwupd staged, with the outcome. It runs at every scan, so only the plugin for UEFI capsules is
// enabled: the others would probe every device of the machine.
func getHistory() command.Command {
	return command.Command{Argv: []string{tool, "get-history", "--json", "--plugins", "uefi_capsule"}, Timeout: queryTimeout}
}

// getDetails reads an archive. With --json it prints the same text without progress in between.
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

// installOlder is install for an archive that fwupd may consider older than the running version; see takesForOlder. The
// firmware itself still refuses versions below the lowest it accepts.
func installOlder(path, deviceID, lock string) command.Command {
	c := install(path, deviceID, lock)
	c.Argv = append(c.Argv, "--allow-older")
	return c
}

// onlyATA keeps all plugins but the one for ATA drives from probing the machine.
func onlyATA(c command.Command) command.Command {
	c.Argv = append(c.Argv, "--plugins", "ata")
	return c
}

func getATADevices() command.Command            { return onlyATA(getDevices()) }
func getATADetails(path string) command.Command { return onlyATA(getDetails(path)) }

// installATA downloads the firmware of an archive to a drive. Versions of drives are text that cannot be ordered:
// whether this one is a downgrade was decided before. A version that the drive already runs is written again, because a
// drive does not report what waits for activation.
func installATA(path, deviceID, lock string) command.Command {
	c := installOlder(path, deviceID, lock)
	c.Argv = append(c.Argv, "--allow-reinstall")
	return onlyATA(c)
}

func activateATA(deviceID, lock string) command.Command {
	return onlyATA(command.Command{Argv: []string{tool, "activate", deviceID, "--json"}, Kind: command.Write, Lock: lock})
}

// identifyDrive sends IDENTIFY DEVICE to a drive. The bytes are read as they are: sysfs and the page 0x89 only show
// what was read when the drive was found.
func identifyDrive(id inventory.Identity) command.Command {
	return command.Command{Argv: []string{identifyTool, "--raw", node(id)}}
}

func node(id inventory.Identity) string { return "/dev/" + id.Node }
