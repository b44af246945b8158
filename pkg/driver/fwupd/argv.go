package fwupd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
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

// The plugins of fwupd for system firmware and for SATA drives. A command enables one: the others would probe every device of the
// machine.
const (
	capsulePlugin = "uefi_capsule"
	drivePlugin   = "ata"
)

// getDevices lists what fwupd can update.
func getDevices(plugin string) command.Command {
	return command.Command{Argv: []string{tool, "get-devices", "--json", "--plugins", plugin}, Timeout: queryTimeout}
}

// getHistory lists what fwupd staged, with the outcome. It runs at every scan.
func getHistory() command.Command {
	return command.Command{Argv: []string{tool, "get-history", "--json", "--plugins", capsulePlugin}, Timeout: queryTimeout}
}

// getDetails reads an archive. With --json it prints the same text without progress in between.
func getDetails(path, plugin string) command.Command {
	return command.Command{Argv: []string{tool, "get-details", path, "--json", "--plugins", plugin}, Timeout: queryTimeout}
}

// install stages an archive for a device.
func install(path, deviceID, plugin, lock string) command.Command {
	return command.Command{
		Argv: []string{tool, "install", path, deviceID, "--json", "--no-reboot-check", "--plugins", plugin},
		Kind: command.Write,
		Lock: lock,
	}
}

// installOlder is install for an archive that fwupd may consider older than the running version; see takesForOlder. The
// firmware itself still refuses versions below the lowest it accepts.
func installOlder(path, deviceID, plugin, lock string) command.Command {
	c := install(path, deviceID, plugin, lock)
	c.Argv = append(c.Argv, "--allow-older")
	return c
}

// installATA downloads the firmware of an archive to a drive. Versions of drives are text that cannot be ordered:
// whether this one is a downgrade was decided before. A version that the drive already runs is written again, because a
// drive does not report what waits for activation.
func installATA(path, deviceID, lock string) command.Command {
	c := installOlder(path, deviceID, drivePlugin, lock)
	c.Argv = append(c.Argv, "--allow-reinstall")
	return c
}

func activateATA(deviceID, lock string) command.Command {
	return command.Command{Argv: []string{tool, "activate", deviceID, "--json", "--plugins", drivePlugin}, Kind: command.Write, Lock: lock}
}

// identifyDrive sends IDENTIFY DEVICE to a drive. The bytes are read as they are: sysfs and the page 0x89 only show
// what was read when the drive was found.
func identifyDrive(id inventory.Identity) command.Command {
	return command.Command{Argv: []string{identifyTool, "--raw", node(id)}}
}

func node(id inventory.Identity) string { return "/dev/" + id.Node }

// Keep makes the driver tell fwupdtool how this machine spells versions, by a file in a directory of the daemon. It returns the
// driver. If dir is "", fwupdtool uses its own defaults.
func (d *Driver) Keep(dir string) *Driver {
	d.dir = dir
	return d
}

// told is a command with what fwupdtool cannot find out in a container: where the EFI system partition is mounted, empty where the
// command needs none, and the format of the machine's versions.
func (d *Driver) told(c command.Command, esp string, bios resource, running inventory.Version) (command.Command, error) {
	if esp != "" {
		c.Env = append(c.Env, "FWUPD_UEFI_ESP_PATH="+esp)
	}
	spelled := formatFor(bios.Version, running)
	if spelled == "" || d.dir == "" {
		return c, nil
	}
	dir, err := quirk(d.dir, bios.GUID, spelled)
	if err != nil {
		return c, err
	}
	c.Env = append(c.Env, "FWUPD_LOCALSTATEDIR_QUIRKS="+dir)
	return c, nil
}

// quirk writes the file, unless it is there, and returns its directory.
func quirk(state, guid, spelled string) (string, error) {
	dir := filepath.Join(state, "fwupd", "quirks.d")
	file, text := filepath.Join(dir, "version.quirk"), fmt.Appendf(nil, "[%s]\nVersionFormat = %s\n", guid, spelled)
	if now, err := os.ReadFile(file); err == nil && bytes.Equal(now, text) {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("tell fwupdtool the format of versions: %w", err)
	}
	// A tool that reads meanwhile has the old file or the new one.
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return "", fmt.Errorf("tell fwupdtool the format of versions: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return "", fmt.Errorf("tell fwupdtool the format of versions: %w", err)
	}
	return dir, nil
}
