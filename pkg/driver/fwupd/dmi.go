package fwupd

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// readBIOSVersion reads the version the firmware gives itself, from SMBIOS type 0.
func readBIOSVersion(host fs.FS) (inventory.Version, error) {
	const path = "sys/class/dmi/id/bios_version"
	b, err := fs.ReadFile(host, path)
	if err != nil {
		return "", fmt.Errorf("read BIOS version: %w", err)
	}
	v := inventory.NormalizeVersion(string(b))
	if v == "" {
		return "", errors.New("read BIOS version: " + path + " is empty")
	}
	return v, nil
}

// formatOf is FormatDotted for versions that are numbers between dots and FormatPlain for all others, such as "A09" or
// "U30 v2.62 (03/08/2022)".
func formatOf(v inventory.Version) inventory.VersionFormat {
	if v.Compare("0", inventory.FormatDotted) == inventory.Incomparable {
		return inventory.FormatPlain
	}
	return inventory.FormatDotted
}
