package fwupd

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// esrtEntry is an entry of the EFI System Resource Table (UEFI Specification 2.10, section 23.4). Versions are plain
// numbers whose format only the vendor knows.
type esrtEntry struct {
	// Class is the GUID of the firmware, in lower case.
	Class string
	// Type is 1 for the system firmware.
	Type uint32
	// LastAttemptVersion and LastAttemptStatus are about the last capsule the firmware was given.
	LastAttemptVersion, LastAttemptStatus uint32
}

const systemFirmware = 1

// errNoESRT wraps the reasons for which a machine's firmware can be read but not updated.
var errNoESRT = errors.New("the system firmware cannot be updated through UEFI capsules")

// readSystemFirmware finds the ESRT entry of the system firmware. It returns errNoESRT with the reason when there is
// none, and another error when the table is not as the kernel shows it.
func readSystemFirmware(host fs.FS) (esrtEntry, error) {
	const efi, entries = "sys/firmware/efi", "sys/firmware/efi/esrt/entries"
	if _, err := fs.Stat(host, efi); errors.Is(err, fs.ErrNotExist) {
		return esrtEntry{}, fmt.Errorf("%w: the machine did not boot through UEFI", errNoESRT)
	}
	dirs, err := fs.ReadDir(host, entries)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return esrtEntry{}, fmt.Errorf("%w: the firmware has no ESRT", errNoESRT)
	case errors.Is(err, fs.ErrPermission):
		return esrtEntry{}, fmt.Errorf("%w: only root may read the ESRT", errNoESRT)
	case err != nil:
		return esrtEntry{}, fmt.Errorf("read ESRT: %w", err)
	}
	var found []esrtEntry
	for _, d := range dirs {
		e, err := readEntry(host, path.Join(entries, d.Name()))
		if errors.Is(err, fs.ErrPermission) {
			return esrtEntry{}, fmt.Errorf("%w: only root may read the ESRT", errNoESRT)
		}
		if err != nil {
			return esrtEntry{}, fmt.Errorf("read ESRT: %w", err)
		}
		if e.Type == systemFirmware {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 0:
		return esrtEntry{}, fmt.Errorf("%w: the ESRT has no entry for the system firmware", errNoESRT)
	case 1:
		return found[0], nil
	}
	return esrtEntry{}, fmt.Errorf("%w: the ESRT has %d entries for the system firmware", errNoESRT, len(found))
}

func readEntry(host fs.FS, dir string) (esrtEntry, error) {
	var e esrtEntry
	class, err := fs.ReadFile(host, path.Join(dir, "fw_class"))
	if err != nil {
		return e, err
	}
	if e.Class, err = parseGUID(string(class)); err != nil {
		return e, fmt.Errorf("%s/fw_class: %w", dir, err)
	}
	for name, field := range map[string]*uint32{
		"fw_type":              &e.Type,
		"last_attempt_version": &e.LastAttemptVersion,
		"last_attempt_status":  &e.LastAttemptStatus,
	} {
		text, err := fs.ReadFile(host, path.Join(dir, name))
		if err != nil {
			return e, err
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
		if err != nil {
			return e, fmt.Errorf("%s/%s: %w", dir, name, err)
		}
		*field = uint32(n)
	}
	return e, nil
}

// attemptStatus are the texts of last_attempt_status.
var attemptStatus = map[uint32]string{
	1: "unsuccessful",
	2: "insufficient resources",
	3: "incorrect version",
	4: "invalid image format",
	5: "authentication failed",
	6: "power supply is not connected",
	7: "battery is too low",
	8: "unsatisfied dependencies",
}

// lastAttempt says why the firmware refused the last capsule, or nothing when it took it.
func (e esrtEntry) lastAttempt() string {
	if e.LastAttemptStatus == 0 {
		return ""
	}
	text, ok := attemptStatus[e.LastAttemptStatus]
	if !ok {
		text = "a reason of the vendor's own"
	}
	return fmt.Sprintf("the firmware refused the last update, to version %#x: %s (status %d)", e.LastAttemptVersion, text, e.LastAttemptStatus)
}

// parseGUID brings a GUID to lower case.
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
