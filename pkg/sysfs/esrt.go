package sysfs

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// ESRTEntry is one firmware resource that UEFI can update by a capsule (sys/firmware/efi/esrt/entries/<name>/; UEFI
// Specification 2.10, section 23.4).
type ESRTEntry struct {
	Name string
	// Class is the GUID images for the resource carry (fw_class).
	Class string
	// Type is 1 for the system firmware and 2 for firmware of a device (fw_type).
	Type *int
	// Version runs; LowestSupportedVersion is the oldest the resource accepts (fw_version,
	// lowest_supported_fw_version).
	Version, LowestSupportedVersion *int
	// LastAttemptVersion and LastAttemptStatus say what the last capsule held and how it ended, 0 being well
	// (last_attempt_version, last_attempt_status).
	LastAttemptVersion, LastAttemptStatus *int
	// Err says what of the entry could not be read.
	Err error
}

// ESRTSystemFirmware is the Type of the system firmware.
const ESRTSystemFirmware = 1

const esrtDir = "sys/firmware/efi/esrt/entries"

// ESRT lists the entries in order of name. Only root may read them.
func ESRT(fsys fs.FS) ([]ESRTEntry, error) {
	names, err := list(fsys, esrtDir)
	if err != nil {
		return nil, err
	}
	var entries []ESRTEntry
	for _, name := range names {
		a := attributes{fsys: fsys, dir: path.Join(esrtDir, name)}
		e := ESRTEntry{
			Name: name, Class: strings.ToLower(a.text("fw_class")), Type: a.number("fw_type"),
			Version: a.number("fw_version"), LowestSupportedVersion: a.number("lowest_supported_fw_version"),
			LastAttemptVersion: a.number("last_attempt_version"), LastAttemptStatus: a.number("last_attempt_status"),
		}
		e.Err = a.err
		entries = append(entries, e)
	}
	return entries, nil
}

// EFIVariables is the directory of the variables of the firmware, where efivarfs is mounted.
const EFIVariables = "sys/firmware/efi/efivars"

// efiAttributes is the number of bytes that efivarfs puts before the value of a variable: its attributes.
const efiAttributes = 4

// EFIVariable is the value of a variable of the firmware (sys/firmware/efi/efivars/<name>-<guid>; UEFI Specification 2.10, section
// 8.2). It is nil when there is no such variable, and at most 4 KiB. The GUID has lower-case digits.
func EFIVariable(fsys fs.FS, name, guid string) ([]byte, error) {
	file := path.Join(EFIVariables, name+"-"+guid)
	data, err := readFile(fsys, file)
	switch {
	case err != nil || data == nil:
		return nil, err
	case len(data) < efiAttributes:
		return nil, fmt.Errorf("read %s: %d bytes, want the %d of the attributes first", file, len(data), efiAttributes)
	}
	return data[efiAttributes:], nil
}

// HasEFIVariables reports whether the kernel shows variables of the firmware. It shows none to a machine that did not boot through
// UEFI, where efivarfs is not mounted, and where it makes no calls of the firmware.
func HasEFIVariables(fsys fs.FS) (bool, error) {
	names, err := list(fsys, EFIVariables)
	return len(names) > 0, err
}
