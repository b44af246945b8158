package toolcontract

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// UEFI is a directory that the real fwupdtool takes for a machine with UEFI: the tables, the variables, and an EFI system partition. Its
// system firmware runs 2.10.2, as a triplet, and accepts nothing below 2.0.0.
type UEFI struct {
	// Dir is the directory.
	Dir string
	// GUID is the one of the system firmware, in lower case.
	GUID string
}

// NewUEFI makes the machine in a directory. indications are what its firmware says in OsIndicationsSupported.
func NewUEFI(dir, guid string, indications uint64) (UEFI, error) {
	u := UEFI{Dir: dir, GUID: guid}
	entry, dmi := "sys/firmware/efi/esrt/entries/entry0/", "sys/class/dmi/id/"
	files := map[string]string{
		entry + "fw_class": guid + "\n", entry + "fw_type": "1\n", entry + "fw_version": "34209794\n",
		entry + "lowest_supported_fw_version": "33554432\n", entry + "last_attempt_version": "0\n", entry + "last_attempt_status": "0\n",
		entry + "capsule_flags": "0\n", "sys/firmware/efi/fw_platform_size": "64\n",
		dmi + "bios_vendor": "Simulated\n", dmi + "bios_version": "2.10.2\n", dmi + "sys_vendor": "Simulated\n", dmi + "chassis_type": "23\n",
		u.variable("OsIndicationsSupported"): string(binary.LittleEndian.AppendUint64([]byte{6, 0, 0, 0}, indications)),
	}
	var errs []error
	for _, d := range []string{"esp/EFI/debian", "lock", "state", "cache", "conf/fwupd", "lib/fwupd/quirks.d"} {
		errs = append(errs, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		errs = append(errs, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600))
	}
	if err := errors.Join(errs...); err != nil {
		return UEFI{}, fmt.Errorf("make machine with UEFI: %w", err)
	}
	return u, nil
}

// Env are the variables that make fwupdtool look into the directory. It is not told of the partition, nor how versions are spelled. From
// 2.1 on the machine's own /sys/class/dmi/id is read.
func (u UEFI) Env() []string {
	return []string{
		"FWUPD_SYSFSFWDIR=" + u.Dir + "/sys/firmware", "FWUPD_SYSFSDMIDIR=" + u.Dir + "/sys/class/dmi/id", "FWUPD_LOCKDIR=" + u.Dir + "/lock",
		"FWUPD_SYSCONFDIR=" + u.Dir + "/conf", "STATE_DIRECTORY=" + u.Dir + "/state", "CACHE_DIRECTORY=" + u.Dir + "/cache",
		"FWUPD_UEFI_TEST=1", // the variables are a directory, not a file system
	}
}

// ESP is the directory of the partition.
func (u UEFI) ESP() string { return filepath.Join(u.Dir, "esp") }

// TellESP is the variable that names the partition.
func (u UEFI) TellESP() string { return "FWUPD_UEFI_ESP_PATH=" + u.ESP() }

// TellFormat writes the file that says how versions are spelled, and returns the variables that name its directory: that of fwupd 2.0, and
// the one below which 2.1 looks for it.
func (u UEFI) TellFormat(format string) ([]string, error) {
	dir := filepath.Join(u.Dir, "lib/fwupd/quirks.d")
	text := fmt.Appendf(nil, "[%s]\nVersionFormat = %s\n", u.GUID, format)
	if err := os.WriteFile(filepath.Join(dir, "version.quirk"), text, 0o600); err != nil {
		return nil, fmt.Errorf("tell the format of versions: %w", err)
	}
	return []string{"FWUPD_LOCALSTATEDIR_QUIRKS=" + dir, "FWUPD_LOCALSTATEDIR=" + u.Dir}, nil
}

// Fill makes fwupdtool find too little room on the partition.
func (u UEFI) Fill() error {
	text := []byte("[fwupd]\n[uefi_capsule]\nRequireESPFreeSpace = 0x7fffffffffffffff\n")
	if err := os.WriteFile(filepath.Join(u.Dir, "conf/fwupd/fwupd.conf"), text, 0o600); err != nil {
		return fmt.Errorf("fill partition: %w", err)
	}
	return nil
}

// Block makes the partition take no capsule, as one that is mounted read-only.
func (u UEFI) Block() error {
	if err := os.WriteFile(filepath.Join(u.ESP(), "EFI/UpdateCapsule"), nil, 0o400); err != nil {
		return fmt.Errorf("block partition: %w", err)
	}
	return nil
}

// Capsules are the files that were left for the firmware.
func (u UEFI) Capsules() ([]string, error) {
	found, err := filepath.Glob(filepath.Join(u.ESP(), "EFI/UpdateCapsule/*"))
	if err != nil {
		return nil, fmt.Errorf("list capsules: %w", err)
	}
	return found, nil
}

// Indications are the bits by which the firmware is asked for something at the next boot; 0 where it is not.
func (u UEFI) Indications() (uint64, error) {
	value, err := os.ReadFile(filepath.Join(u.Dir, u.variable("OsIndications")))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read what the firmware is asked for: %w", err)
	case len(value) != 12:
		return 0, fmt.Errorf("read what the firmware is asked for: %d bytes, want 12", len(value))
	}
	return binary.LittleEndian.Uint64(value[4:]), nil
}

func (u UEFI) variable(name string) string {
	return "sys/firmware/efi/efivars/" + name + "-8be4df61-93ca-11d2-aa0d-00e098032b8c"
}
