package simhost

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"
)

// The bits of OsIndicationsSupported and OsIndications (UEFI Specification 2.10, section 8.5.4).
const (
	indicatesSetup   = 0x01
	indicatesCapsule = 0x04
	indicatesRecover = 0x40
)

// renderVariables adds variables of the firmware, as efivarfs shows them: four bytes of attributes, then the value.
func renderVariables(t tree, s *state) {
	const dir = "sys/firmware/efi/efivars"
	const global, loader = "8be4df61-93ca-11d2-aa0d-00e098032b8c", "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
	number := func(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }
	supported := uint64(indicatesSetup | indicatesRecover | indicatesCapsule)
	if s.Spec.BIOS.NoCapsules {
		supported &^= indicatesCapsule
	}
	t.file(dir, "OsIndicationsSupported-"+global, "\x06\x00\x00\x00"+number(supported), 0o644)
	if s.BIOS.Capsule.Version != "" {
		t.file(dir, "OsIndications-"+global, "\x07\x00\x00\x00"+number(indicatesCapsule), 0o644)
	}
	secure := "\x00"
	if s.Spec.SecureBoot {
		secure = "\x01"
	}
	t.file(dir, "SecureBoot-"+global, "\x06\x00\x00\x00"+secure, 0o644)
	if len(s.Spec.ESPs) > 0 && s.Spec.ESPs[0].ID != "" {
		t.file(dir, "LoaderDevicePartUUID-"+loader, "\x06\x00\x00\x00"+text16(strings.ToUpper(s.Spec.ESPs[0].ID)), 0o644)
	}
}

// text16 is a text as the firmware and boot loaders write it: UTF-16 with a zero at its end.
func text16(s string) string {
	var out []byte
	for _, u := range append(utf16.Encode([]rune(s)), 0) {
		out = binary.LittleEndian.AppendUint16(out, u)
	}
	return string(out)
}

// renderESPs adds the mounts of the daemon's own namespace, what udev knows of the partitions, and a boot loader on each.
func renderESPs(t tree, s *state) {
	mounts := "27 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw\n" +
		"30 24 0:27 / /sys/firmware/efi/efivars rw,nosuid,nodev,noexec,relatime shared:8 - efivarfs none rw\n"
	for i, p := range s.Spec.ESPs {
		mode := "rw"
		if p.ReadOnly {
			mode = "ro"
		}
		mounts += fmt.Sprintf("%d 27 %s / %s %s,relatime shared:%d - vfat /dev/sda%d %s,fmask=0077\n", 98+i, p.Number, p.Path, mode, 58+i, i+1, mode)
		t.file("run/udev/data", "b"+p.Number, "E:ID_FS_TYPE=vfat\nE:ID_PART_ENTRY_SCHEME=gpt\nE:ID_PART_ENTRY_TYPE="+
			"c12a7328-f81f-11d2-ba4b-00a0c93ec93b\nE:ID_PART_ENTRY_UUID="+p.ID+"\n", 0o644)
		t.file(strings.TrimPrefix(p.Path, "/")+"/EFI/debian", "grubx64.efi", "MZ", 0o755)
	}
	t.file("proc/self", "mountinfo", mounts, 0o444)
}
