package fwupd

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

func readVersion(host fs.FS) (inventory.Version, error) {
	dmi, err := sysfs.ReadDMI(host)
	if err != nil {
		return "", fmt.Errorf("read BIOS version: %w", err)
	}
	if dmi == nil || dmi.BIOSVersion == "" {
		return "", errors.New("read BIOS version: the machine's DMI tables have none")
	}
	return inventory.NormalizeVersion(dmi.BIOSVersion), nil
}

// formatOf is FormatDotted for versions that are numbers between dots and FormatPlain for all others, such as "A09" or
// "U30 v2.62 (03/08/2022)".
func formatOf(v inventory.Version) inventory.VersionFormat {
	if v.Compare("0", inventory.FormatDotted) == inventory.Incomparable {
		return inventory.FormatPlain
	}
	return inventory.FormatDotted
}
