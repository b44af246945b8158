package fwupd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf16"

	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// The GUIDs of the variables of the firmware (UEFI Specification 2.10, section 3.3) and of boot loaders (Boot Loader Interface of
// systemd.io, which GRUB's module bli provides too).
const (
	globalVariable = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
	loaderVariable = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
)

// capsuleOnDisk is the bit of OsIndicationsSupported by which a firmware promises to look for capsules on the EFI system partition:
// EFI_OS_INDICATIONS_FILE_CAPSULE_DELIVERY_SUPPORTED (UEFI Specification 2.10, sections 8.5.4 and 8.5.5).
const capsuleOnDisk = 1 << 2

// indications is what the firmware says in OsIndicationsSupported; not known where it has no such variable.
func indications(host fs.FS) (bits uint64, known bool, err error) {
	value, err := sysfs.EFIVariable(host, "OsIndicationsSupported", globalVariable)
	switch {
	case err != nil || value == nil:
		return 0, false, err
	case len(value) != 8:
		return 0, false, fmt.Errorf("read OsIndicationsSupported: %d bytes, want 8", len(value))
	}
	return binary.LittleEndian.Uint64(value), true, nil
}

// bootPartition is the id of the partition that the machine booted from, in lower case: what the boot loader says, or else the
// firmware's boot option. It is empty where neither says so, as after a boot from the network.
func bootPartition(host fs.FS) (string, error) {
	value, err := sysfs.EFIVariable(host, "LoaderDevicePartUUID", loaderVariable)
	if err != nil {
		return "", err
	}
	if value != nil {
		id, err := parseGUID(text16(value))
		if err != nil {
			return "", fmt.Errorf("read LoaderDevicePartUUID: %w", err)
		}
		return id, nil
	}
	value, err = sysfs.EFIVariable(host, "BootCurrent", globalVariable)
	switch {
	case err != nil || value == nil:
		return "", err
	case len(value) != 2:
		return "", fmt.Errorf("read BootCurrent: %d bytes, want 2", len(value))
	}
	name := fmt.Sprintf("Boot%04X", binary.LittleEndian.Uint16(value))
	if value, err = sysfs.EFIVariable(host, name, globalVariable); err != nil || value == nil {
		return "", err
	}
	id, err := parseBootOption(value)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return id, nil
}

// text16 is a text of the firmware: UTF-16, up to a zero.
func text16(b []byte) string {
	var units []uint16
	for ; len(b) >= 2; b = b[2:] {
		u := binary.LittleEndian.Uint16(b)
		if u == 0 {
			break
		}
		units = append(units, u)
	}
	return string(utf16.Decode(units))
}

// The nodes of a device path (UEFI Specification 2.10, section 10.3): type, subtype and length in four bytes, then the rest.
const (
	nodeHeader = 4
	mediaNode  = 4
	// hardDrive is the subtype of a partition, with its own id of 16 bytes and the kind of that id.
	hardDrive, hardDriveLength  = 1, 42
	signatureAt, signatureKind  = 24, 41
	signatureIsGUID             = 2
	endNode                     = 0x7f
	optionAttributes, pathsSize = 4, 2
)

// parseBootOption reads a boot option (EFI_LOAD_OPTION; UEFI Specification 2.10, section 3.1.3): the id of the partition of a GPT that
// it boots from, empty when its path names none.
func parseBootOption(b []byte) (string, error) {
	short := errors.New("parse boot option: it ends too early")
	if len(b) < optionAttributes+pathsSize {
		return "", short
	}
	size := int(binary.LittleEndian.Uint16(b[optionAttributes:]))
	b = b[optionAttributes+pathsSize:]
	for { // the description
		if len(b) < 2 {
			return "", short
		}
		u := binary.LittleEndian.Uint16(b)
		if b = b[2:]; u == 0 {
			break
		}
	}
	if size > len(b) {
		return "", short
	}
	for b = b[:size]; len(b) >= nodeHeader; {
		length := int(binary.LittleEndian.Uint16(b[2:]))
		switch {
		case length < nodeHeader || length > len(b):
			return "", fmt.Errorf("parse boot option: a node of %d bytes where %d are left", length, len(b))
		case b[0] == endNode:
			return "", nil
		case b[0] == mediaNode && b[1] == hardDrive && length == hardDriveLength && b[signatureKind] == signatureIsGUID:
			return mixedGUID(b[signatureAt : signatureAt+16]), nil
		}
		b = b[length:]
	}
	return "", nil
}

// mixedGUID spells the 16 bytes of a GUID, the first three numbers of which are little-endian.
func mixedGUID(b []byte) string {
	le := binary.LittleEndian
	return strings.ToLower(fmt.Sprintf("%08x-%04x-%04x-%x-%x", le.Uint32(b), le.Uint16(b[4:]), le.Uint16(b[6:]), b[8:10], b[10:16]))
}

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
