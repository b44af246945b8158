package sysfs

import (
	"fmt"
	"io/fs"
	"path"
)

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
