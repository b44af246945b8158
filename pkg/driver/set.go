package driver

import (
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Set is the list of drivers of one process.
type Set []Driver

// For returns the driver that knows the device best, or nil when none does. Two drivers that know it equally well are
// an error: which of them writes must never be a matter of luck.
func (s Set) For(id inventory.Identity) (Driver, error) {
	var best Driver
	level, tie := SupportNone, ""
	for _, d := range s {
		switch l := d.Support(id); {
		case l > level:
			best, level, tie = d, l, ""
		case l == level && l != SupportNone:
			tie = d.Name()
		}
	}
	if tie != "" {
		return nil, fmt.Errorf("choose driver for %s %s: %s and %s claim it equally", id.Class, id.UniqueID, best.Name(), tie)
	}
	return best, nil
}
