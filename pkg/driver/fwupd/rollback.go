package fwupd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// rollback says whether the firmware would accept the running version again after an update. A capsule cannot be read
// from a machine, so it has to come from a source. The two ESRT versions have the same format, whatever it is, and can
// be compared.
func (r resource) rollback(running inventory.Version) (inventory.Rollback, string) {
	switch {
	case r.Version == nil || r.LowestSupportedVersion == nil:
		return inventory.RollbackNone, "the ESRT does not say which versions the firmware accepts"
	case *r.Version < *r.LowestSupportedVersion:
		return inventory.RollbackNone, fmt.Sprintf("the firmware accepts no version below %#x, and the running version %s is %#x: an update cannot be undone",
			*r.LowestSupportedVersion, running, *r.Version)
	}
	return inventory.RollbackImage, fmt.Sprintf("an archive of %s is needed, and the new firmware may raise the lowest version it accepts", running)
}

// takesForOlder reports whether fwupd may consider the version older than the running one. Whether a downgrade is
// allowed was decided before, from versions of one format. fwupd decides it again from the archive's version and the
// ESRT's number, and without online metadata it does not know the format of that number: it considers 0.1.54 older than
// 65589, which is 0.1.53. Versions of some formats it compares as text.
func (d fwupdDevice) takesForOlder(v inventory.Version) bool {
	return slices.Contains([]string{"", "unknown", "plain", "hex"}, d.VersionFormat) || !isNewer(v, inventory.Version(d.Version))
}

// isNewer reports whether v is newer. Versions of different formats are not comparable.
func isNewer(v, than inventory.Version) bool {
	return strings.Count(string(v), ".") == strings.Count(string(than), ".") &&
		v.Compare(than, inventory.FormatDotted) == inventory.Newer
}
