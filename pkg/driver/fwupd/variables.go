package fwupd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
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

// partition is a FAT file system that this process sees mounted where hosts have their EFI system partition. The firmware looks there for
// capsules (UEFI Specification 2.10, section 8.5.5).
type partition struct {
	// Path is its mount point.
	Path string
	// ReadOnly says that nothing can be written to it there.
	ReadOnly bool
	// Number is major:minor of its block device.
	Number string
	// ID and Type are those of the partition table, empty where udev does not say.
	ID, Type string
}

// espPaths are where hosts mount their EFI system partition, in the order in which they are shown. In a container the host's root
// may stand before them.
var espPaths = []string{"/boot/efi", "/efi", "/boot"}

// The types of an EFI system partition in a GPT and in an MBR (UEFI Specification 2.10, sections 5.3.3 and 5.2.2).
const (
	espType    = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
	espTypeMBR = "0xef"
)

// mounts is what the mounts of this process say about the way of a capsule.
type mounts struct {
	// partitions are the candidates, one for each block device.
	partitions []partition
	// asleep are the automounts at those places on which nothing is mounted now. Systemd mounts the partition when somebody looks there,
	// and takes it away when nobody has for a while (systemd.automount(5), TimeoutIdleSec; two minutes where it finds the partition itself).
	asleep []string
	// variablesReadOnly says that efivarfs is mounted, and read-only.
	variablesReadOnly bool
}

// readMounts reads the mounts of this process (proc_pid_mountinfo(5)), because fwupdtool itself asks UDisks2, which no container
// reaches. Where one partition is mounted twice, a writable mount is believed before others, and the host's own before one that is
// further down.
func readMounts(host fs.FS) (mounts, error) {
	text, err := fs.ReadFile(host, "proc/self/mountinfo")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return mounts{}, nil
	case err != nil:
		return mounts{}, fmt.Errorf("find EFI system partition: %w", err)
	}
	var out mounts
	awake := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		m, err := parseMount(line)
		switch {
		case err != nil:
			return mounts{}, fmt.Errorf("find EFI system partition: %w", err)
		case m.kind == "efivarfs" && m.Path == "/"+sysfs.EFIVariables:
			out.variablesReadOnly = m.ReadOnly // the last one covers those before it
		case m.kind == "vfat" && m.root == "/" && m.rank() >= 0:
			out.partitions = append(out.partitions, m.partition)
			awake[m.Path] = true
		case m.kind == "autofs" && m.rank() >= 0:
			out.asleep = append(out.asleep, m.Path)
		}
	}
	out.asleep = slices.DeleteFunc(out.asleep, func(path string) bool { return awake[path] })
	slices.SortStableFunc(out.partitions, func(a, b partition) int {
		switch {
		case a.ReadOnly != b.ReadOnly && b.ReadOnly:
			return -1
		case a.ReadOnly != b.ReadOnly:
			return 1
		case a.rank() != b.rank():
			return a.rank() - b.rank()
		}
		return len(a.Path) - len(b.Path)
	})
	seen := map[string]bool{}
	out.partitions = slices.DeleteFunc(out.partitions, func(p partition) bool {
		again := seen[p.Number]
		seen[p.Number] = true
		return again
	})
	for i := range out.partitions {
		p := &out.partitions[i]
		if p.ID, p.Type, err = sysfs.PartitionEntry(host, p.Number); err != nil {
			return mounts{}, fmt.Errorf("find EFI system partition: %w", err)
		}
	}
	return out, nil
}

// rank is the place of the mount point among espPaths, -1 for other mount points.
func (p partition) rank() int {
	return slices.IndexFunc(espPaths, func(path string) bool { return p.Path == path || p.Path == "/host"+path })
}

// mount is a line of mountinfo.
type mount struct {
	partition
	// kind is the type of the file system, root the directory of it that is mounted.
	kind, root string
}

// parseMount reads a line of mountinfo.
func parseMount(line string) (mount, error) {
	before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
	left, right := strings.Fields(before), strings.Fields(after)
	if !ok || len(left) < 6 || len(right) < 2 { // what was mounted, between type and options, may be an empty text
		return mount{}, fmt.Errorf("parse mount %q: a field is missing", line)
	}
	readOnly := slices.Contains(strings.Split(left[5], ","), "ro") || slices.Contains(strings.Split(right[len(right)-1], ","), "ro")
	return mount{partition: partition{Path: left[4], ReadOnly: readOnly, Number: left[2]}, kind: right[0], root: left[3]}, nil
}

// chooseESP is the partition that the firmware looks at. Of one that is mounted nothing more has to be known; where several are, the
// partition table and then the boot decide. booted is the id of the partition that the machine booted from, empty where that is not
// known. The error is a *notReady.
func chooseESP(found []partition, booted string) (partition, error) {
	for _, p := range found {
		if booted != "" && p.ID == booted {
			return p, nil
		}
	}
	found = slices.DeleteFunc(slices.Clone(found), func(p partition) bool {
		return p.Type != "" && p.Type != espType && p.Type != espTypeMBR
	})
	var paths []string
	for _, p := range found {
		paths = append(paths, p.Path)
	}
	unknown := slices.ContainsFunc(found, func(p partition) bool { return p.ID == "" })
	switch {
	case len(found) == 0:
		return partition{}, notReadyf(NoPartition, "no EFI system partition is mounted where the daemon sees it: mount it at /boot/efi on the host")
	case booted != "" && !unknown:
		return partition{}, notReadyf(OtherPartition, "the machine booted from the EFI system partition %s, which is not the one mounted at %s: mount it there",
			booted, strings.Join(paths, " or "))
	case len(found) > 1:
		return partition{}, notReadyf(SeveralPartitions, "%s are mounted, and nothing says which one is the EFI system partition that the machine booted from: unmount the others",
			strings.Join(paths, " and "))
	}
	return found[0], nil
}
