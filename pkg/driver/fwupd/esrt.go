package fwupd

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// resource is the entry of the system firmware in the EFI System Resource Table (UEFI Specification 2.10, section
// 23.4). Versions are plain numbers in a vendor-specific format.
type resource struct {
	// GUID of the images the firmware accepts, in lower case.
	GUID string
	// Version is the running version, LowestSupportedVersion the lowest the firmware accepts; nil if the table does not
	// say.
	Version, LowestSupportedVersion *int
	// LastAttemptVersion and LastAttemptStatus are about the last capsule the firmware was given.
	LastAttemptVersion, LastAttemptStatus int
}

// readResource finds the ESRT entry of the system firmware. The error is a *notReady when there is none, and another one when the
// table is malformed.
func readResource(host fs.FS) (resource, error) {
	entries, err := sysfs.ESRT(host)
	var found []sysfs.ESRTEntry
	for _, e := range entries {
		err = errors.Join(err, e.Err)
		if e.Type != nil && *e.Type == sysfs.ESRTSystemFirmware {
			found = append(found, e)
		}
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return resource{}, notReadyf(NoTable, "only root may read the ESRT: run this as root")
	case err != nil:
		return resource{}, fmt.Errorf("read ESRT: %w", err)
	case len(entries) == 0:
		return resource{}, noTable(host)
	case len(found) != 1:
		return resource{}, notReadyf(NoTable, "the ESRT has %d entries for the system firmware instead of one: use the vendor's own tool", len(found))
	}
	return parseResource(found[0])
}

// noTable says why a machine has no ESRT. The variables tell it apart from one whose table is merely not shown.
func noTable(host fs.FS) error {
	_, err := fs.Stat(host, "sys/firmware/efi")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return notReadyf(NoUEFI, "the machine did not boot through UEFI: enable UEFI in its setup and install its system for that, or use the vendor's own tool")
	case err != nil:
		return fmt.Errorf("read how the machine booted: %w", err)
	}
	bits, known, err := indications(host)
	switch {
	case err != nil:
		return err
	case known:
		return notReadyf(NoTable, "the firmware has no ESRT, so it takes no capsules for itself (OsIndicationsSupported is %#x): use the vendor's own tool", bits)
	}
	return notReadyf(NoTable, "the firmware has no ESRT, so it takes no capsules for itself: use the vendor's own tool")
}

func parseResource(e sysfs.ESRTEntry) (resource, error) {
	guid, err := parseGUID(e.Class)
	if err != nil {
		return resource{}, fmt.Errorf("read ESRT: %s: %w", e.Name, err)
	}
	if e.LastAttemptVersion == nil || e.LastAttemptStatus == nil {
		return resource{}, fmt.Errorf("read ESRT: %s does not say how the last update ended", e.Name)
	}
	return resource{
		GUID: guid, Version: e.Version, LowestSupportedVersion: e.LowestSupportedVersion,
		LastAttemptVersion: *e.LastAttemptVersion, LastAttemptStatus: *e.LastAttemptStatus,
	}, nil
}

// lastAttempt says why the firmware refused the last capsule; empty when it accepted it.
func (r resource) lastAttempt() string {
	if r.LastAttemptStatus == 0 {
		return ""
	}
	text, ok := map[int]string{
		1: "unsuccessful",
		2: "insufficient resources",
		3: "incorrect version",
		4: "invalid image format",
		5: "authentication failed",
		6: "power supply is not connected",
		7: "battery is too low",
		8: "unsatisfied dependencies",
	}[r.LastAttemptStatus]
	if !ok {
		text = "a vendor-specific reason"
	}
	return fmt.Sprintf("the firmware refused the last update, to version %#x: %s (status %d)", r.LastAttemptVersion, text, r.LastAttemptStatus)
}

// parseGUID validates a GUID and returns it in lower case.
func parseGUID(s string) (string, error) {
	s = strings.ToLower(strings.TrimSpace(s))
	if len(s) != 36 {
		return "", fmt.Errorf("parse GUID %q: want 36 characters", s)
	}
	for i, c := range s {
		switch dash := i == 8 || i == 13 || i == 18 || i == 23; {
		case dash && c != '-', !dash && !strings.ContainsRune("0123456789abcdef", c):
			return "", fmt.Errorf("parse GUID %q: want 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12", s)
		}
	}
	return s, nil
}
