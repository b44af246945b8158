package simhost

import "strconv"

// renderESRT adds /sys/firmware/efi with the system firmware's entry of the EFI System Resource Table.
func renderESRT(t tree, s *state) {
	const efi = "sys/firmware/efi"
	t.attr(efi, "fw_platform_size", "64")
	t.attrs(efi+"/esrt", "fw_resource_count", "1", "fw_resource_count_max", "1", "fw_resource_version", "1")
	const entry = efi + "/esrt/entries/entry0"
	for _, a := range [][2]string{
		{"fw_class", s.Spec.BIOS.GUID}, {"fw_type", "1"}, {"fw_version", packed(s.BIOS.Running.Version)},
		{"lowest_supported_fw_version", packed(s.Spec.BIOS.LowestVersion)}, {"capsule_flags", "0xfe"},
		{"last_attempt_version", packed(s.BIOS.LastAttemptVersion)},
		{"last_attempt_status", strconv.Itoa(s.BIOS.LastAttemptStatus)},
	} {
		t.secret(entry, a[0], a[1])
	}
}

func packed(version string) string {
	n, err := packTriplet(version)
	if err != nil {
		return "0"
	}
	return strconv.FormatUint(uint64(n), 10)
}
