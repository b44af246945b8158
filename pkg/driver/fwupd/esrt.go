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

// errNoESRT is wrapped by the reasons why a machine's firmware can be read but not updated.
var errNoESRT = errors.New("the system firmware cannot be updated through UEFI capsules")

// readResource finds the ESRT entry of the system firmware. It returns errNoESRT with the reason when there is none,
// and another error when the table is malformed.
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
		return resource{}, fmt.Errorf("%w: only root may read the ESRT", errNoESRT)
	case err != nil:
		return resource{}, fmt.Errorf("read ESRT: %w", err)
	case len(entries) == 0:
		return resource{}, fmt.Errorf("%w: the machine has no ESRT, because it did not boot through UEFI or its firmware takes no capsules", errNoESRT)
	case len(found) != 1:
		return resource{}, fmt.Errorf("%w: the ESRT has %d entries for the system firmware", errNoESRT, len(found))
	}
	return parseResource(found[0])
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
