package fwupd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

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
