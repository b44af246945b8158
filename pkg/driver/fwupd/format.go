package fwupd

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// format is a way in which a vendor spells the number that the ESRT has as a version (fwupd's version formats).
type format struct {
	name  string
	spell func(number uint32) string
}

var formats = []format{
	{"triplet", func(n uint32) string { return fmt.Sprintf("%d.%d.%d", n>>24, n>>16&0xff, n&0xffff) }},
	{"quad", func(n uint32) string { return fmt.Sprintf("%d.%d.%d.%d", n>>24, n>>16&0xff, n>>8&0xff, n&0xff) }},
	{"pair", func(n uint32) string { return fmt.Sprintf("%d.%d", n>>16, n&0xffff) }},
	{"dell-bios", func(n uint32) string { return fmt.Sprintf("%d.%d.%d", n>>16&0xff, n>>8&0xff, n&0xff) }},
	{"dell-bios-msb", func(n uint32) string { return fmt.Sprintf("%d.%d.%d", n>>24, n>>16&0xff, n>>8&0xff) }},
	{"number", func(n uint32) string { return fmt.Sprintf("%d", n) }},
}

// formatFor is the one format in which the number of the ESRT is the version that the machine reports of itself; empty when there is
// none, or more than one. fwupd does not know the format without metadata from the network, and then refuses each archive
// that declares one.
func formatFor(number *int, running inventory.Version) string {
	if number == nil || *number < 0 || *number > 0xffffffff {
		return ""
	}
	found := ""
	for _, f := range formats {
		if f.spell(uint32(*number)) != string(running) {
			continue
		}
		if found != "" {
			return ""
		}
		found = f.name
	}
	return found
}

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
