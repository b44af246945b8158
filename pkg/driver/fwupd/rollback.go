package fwupd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// rollback says whether the firmware would take the running version again after an update. No capsule can be read out of a
// machine, so it has to come from elsewhere. The two numbers are of one format, whichever the vendor's is.
func (r resource) rollback(running inventory.Version) (inventory.Rollback, string) {
	switch {
	case r.Version == nil || r.LowestSupportedVersion == nil:
		return inventory.RollbackNone, "the ESRT does not say which versions the firmware takes"
	case *r.Version < *r.LowestSupportedVersion:
		return inventory.RollbackNone, fmt.Sprintf("the firmware takes nothing below %#x, and %s, which runs, is %#x: an update cannot be undone",
			*r.LowestSupportedVersion, running, *r.Version)
	}
	return inventory.RollbackImage, fmt.Sprintf("an archive of %s is needed, and the new firmware may raise the lowest version it takes", running)
}

// takesForOlder reports whether fwupd may take the version for older than what runs. Whether a downgrade is allowed was
// decided before, from versions of one format. fwupd decides it again from the archive's version and the ESRT's number,
// and without online metadata it cannot tell which format that number has: it takes 0.1.54 for older than 65589, which is
// 0.1.53. Versions of some formats it compares as text.
func (d fwupdDevice) takesForOlder(v inventory.Version) bool {
	return slices.Contains([]string{"", "unknown", "plain", "hex"}, d.VersionFormat) || !isNewer(v, inventory.Version(d.Version))
}

// isNewer reports whether the first version is newer. Versions of another shape are not comparable.
func isNewer(v, than inventory.Version) bool {
	return strings.Count(string(v), ".") == strings.Count(string(than), ".") &&
		v.Compare(than, inventory.FormatDotted) == inventory.Newer
}
