package inventory

import (
	"fmt"
	"strings"
)

// Use is what uses a drive at one moment.
type Use struct {
	// By lists, for people, what would fail while the drive does not answer: mounted file systems, swap space, pools. What a
	// redundant array carries is not listed, because the array survives.
	By []string
	// Arrays are those the drive is an active member of.
	Arrays []Array
}

// Array is a redundant set of drives.
type Array struct {
	// Name is what people call it, such as "md0" or "ZFS pool tank".
	Name string
	// Degraded says that the loss of one more drive would or might lose data; Rebuilds names the repair in progress ("resync", "recover" or
	// "reshape"), empty if there is none.
	Degraded bool
	Rebuilds string
}

// Whole reports whether the array survives the loss of a drive.
func (a Array) Whole() bool { return !a.Degraded && a.Rebuilds == "" }

// String is the array and what is wrong with it.
func (a Array) String() string {
	switch {
	case a.Rebuilds != "":
		return fmt.Sprintf("%s, which is not redundant before its %s has ended", a.Name, a.Rebuilds)
	case a.Degraded:
		return a.Name + ", which is degraded"
	}
	return a.Name
}

// Hold says why the drive must not be disturbed now; empty when it may be. No activation is safe for a drive of an array
// that has no drive to spare.
func (u Use) Hold() string {
	for _, a := range u.Arrays {
		if !a.Whole() {
			return "it is a drive of " + a.String()
		}
	}
	return ""
}

// maxUsers bounds the users that are named.
const maxUsers = 3

// String names what uses the drive; empty for nothing.
func (u Use) String() string {
	if len(u.By) <= maxUsers {
		return strings.Join(u.By, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(u.By[:maxUsers], ", "), len(u.By)-maxUsers)
}
