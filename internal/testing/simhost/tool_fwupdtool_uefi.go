package simhost

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// What fwupdtool finds out about a machine with UEFI in a container, and what it has to be told by variables: the partition, and how the
// machine spells versions.

const noESP = "Not updatable as UEFI ESP partition not detected"

// fwupdESP is the partition that the tool was told; without that it asks UDisks2, which is not there.
func fwupdESP(s *state) (ESP, bool) {
	path := os.Getenv("FWUPD_UEFI_ESP_PATH")
	for _, p := range s.Spec.ESPs {
		if path != "" && p.Path == path {
			return p, true
		}
	}
	return ESP{}, false
}

// fwupdWay says how the tool would update the firmware. It believes the variable, and has another way, which needs more than the tool.
func fwupdWay(s *state) string {
	if s.Spec.BIOS.NoCapsules {
		return "updated via NVRAM"
	}
	return "Updated via capsule-on-disk"
}

// versionFormat is a way to spell the number that the ESRT has as a version.
type versionFormat struct {
	name  string
	spell func(version string) string
}

// fwupdFormat is the one that the tool was told for the machine's GUID: triplet, or a bare number, which it is without any.
func fwupdFormat(s *state) versionFormat {
	number := versionFormat{"number", packed}
	dir := os.Getenv("FWUPD_LOCALSTATEDIR_QUIRKS")
	files, err := filepath.Glob(filepath.Join(dir, "*.quirk"))
	if dir == "" || err != nil {
		return number
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		group := ""
		for line := range strings.Lines(string(data)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			switch key = strings.TrimSpace(key); {
			case strings.HasPrefix(key, "["):
				group = strings.Trim(key, "[]")
			case group == s.Spec.BIOS.GUID && key == "VersionFormat" && strings.TrimSpace(value) == "triplet":
				return versionFormat{"triplet", func(v string) string { return v }}
			}
		}
	}
	return number
}

// fwupdWritable is what only the write finds out: the room, and whether anything can be written at all.
func fwupdWritable(s *state, esp ESP, size int) *fwupdError {
	const overhead = 1 << 20
	switch {
	case esp.Full:
		need := float64(2*size+overhead) / 1e6
		return &fwupdError{fwupdNotSupported, fmt.Sprintf("%s does not have sufficient space, required %.1f\u00a0MB, need additional %.1f\u00a0MB", esp.Path, need, need)}
	case s.Spec.BIOS.NoCapsules:
		return &fwupdError{fwupdNotFound, "/usr/libexec/fwupd/efi/fwupdx64.efi and /usr/libexec/fwupd/efi/fwupdx64.efi.signed cannot be found"}
	case esp.ReadOnly:
		return &fwupdError{fwupdInternal, fmt.Sprintf("Failed to create '%s/EFI/UpdateCapsule': Read-only file system", esp.Path)}
	}
	return nil
}
