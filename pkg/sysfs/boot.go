package sysfs

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

// FirmwareTime is how long the firmware took from the reset of the machine until it started the boot loader. The zero value is that
// nobody says so.
type FirmwareTime struct {
	Took time.Duration
	// By names the clock: times of two clocks must not be compared.
	By string
}

// The clocks of FirmwareTime.
const (
	// ByFirmware is the performance record of the firmware itself (sys/firmware/acpi/fpdt/boot/bootloader_launch_ns, in nanoseconds;
	// Linux 5.12, ACPI Specification 6.5, section 5.2.24). Its clock need not begin at zero.
	ByFirmware = "ACPI FPDT"
	// ByLoader is what a boot loader such as systemd-boot noted when it began (the variable LoaderTimeInitUSec of the firmware: decimal
	// microseconds in UTF-16; systemd, "The Boot Loader Interface").
	ByLoader = "boot loader"
)

const (
	launchFile = "sys/firmware/acpi/fpdt/boot/bootloader_launch_ns"
	loaderTime = "LoaderTimeInitUSec"
	loaderGUID = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
	// maxFirmwareTime is longer than any firmware takes. What is longer comes from a clock that was not reset.
	maxFirmwareTime = time.Hour
)

// ReadFirmwareTime reads it for the running boot. A kernel that was started by another one has that of the last reset.
func ReadFirmwareTime(fsys fs.FS) (FirmwareTime, error) {
	data, err := readFile(fsys, launchFile)
	if err != nil {
		return FirmwareTime{}, err
	}
	if text := clean(string(data)); text != "" {
		return firmwareTime(ByFirmware, launchFile, text, time.Nanosecond)
	}
	value, err := EFIVariable(fsys, loaderTime, loaderGUID)
	if err != nil || value == nil {
		return FirmwareTime{}, err
	}
	return firmwareTime(ByLoader, loaderTime, text16(value), time.Microsecond)
}

// firmwareTime is the time that a text counts in units. A firmware that measures nothing says zero.
func firmwareTime(by, name, text string, unit time.Duration) (FirmwareTime, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || n < 0:
		return FirmwareTime{}, fmt.Errorf("read %s: %q is no time", name, text)
	case n > int64(maxFirmwareTime/unit):
		return FirmwareTime{}, fmt.Errorf("read %s: %s %s is longer than %s, so its clock did not begin at the reset", name, text, unit, maxFirmwareTime)
	case n == 0:
		return FirmwareTime{}, nil
	}
	return FirmwareTime{Took: time.Duration(n) * unit, By: by}, nil
}

// text16 is a text as the firmware and boot loaders write it: little-endian UTF-16 with a zero at its end.
func text16(value []byte) string {
	var units []uint16
	for ; len(value) > 1; value = value[2:] {
		units = append(units, binary.LittleEndian.Uint16(value))
	}
	text, _, _ := strings.Cut(string(utf16.Decode(units)), "\x00")
	return clean(text)
}
