package sysfs_test

import (
	"encoding/binary"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

const (
	launched   = "sys/firmware/acpi/fpdt/boot/bootloader_launch_ns"
	loaderInit = "sys/firmware/efi/efivars/LoaderTimeInitUSec-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
)

// variable is what efivarfs shows of a text that a boot loader wrote.
func variable(text string) *fstest.MapFile {
	data := []byte{6, 0, 0, 0}
	for _, u := range append(utf16.Encode([]rune(text)), 0) {
		data = binary.LittleEndian.AppendUint16(data, u)
	}
	return &fstest.MapFile{Data: data}
}

func TestFirmwareTimeIsRead(t *testing.T) {
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	byFirmware := sysfs.FirmwareTime{Took: 21_947_164_731, By: sysfs.ByFirmware}
	byLoader := sysfs.FirmwareTime{Took: 9_512_844 * time.Microsecond, By: sysfs.ByLoader}
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  sysfs.FirmwareTime
		err   string
	}{
		"neither":                          {fstest.MapFS{}, sysfs.FirmwareTime{}, ""},
		"the firmware":                     {fstest.MapFS{launched: text("21947164731\n")}, byFirmware, ""},
		"a boot loader":                    {fstest.MapFS{loaderInit: variable("9512844")}, byLoader, ""},
		"both, and the firmware counts":    {fstest.MapFS{launched: text("21947164731\n"), loaderInit: variable("9512844")}, byFirmware, ""},
		"firmware that measures nothing":   {fstest.MapFS{launched: text("0\n")}, sysfs.FirmwareTime{}, ""},
		"a clock that was not reset":       {fstest.MapFS{launched: text("3600000000001\n")}, sysfs.FirmwareTime{}, "longer than 1h0m0s"},
		"a number that is no duration":     {fstest.MapFS{launched: text("18446744073709551615\n")}, sysfs.FirmwareTime{}, "no time"},
		"a negative number":                {fstest.MapFS{loaderInit: variable("-1")}, sysfs.FirmwareTime{}, "no time"},
		"no number":                        {fstest.MapFS{loaderInit: variable("soon")}, sysfs.FirmwareTime{}, "no time"},
		"a variable without a value":       {fstest.MapFS{loaderInit: text("\x06\x00\x00\x00")}, sysfs.FirmwareTime{}, "no time"},
		"a variable without attributes":    {fstest.MapFS{loaderInit: text("\x06")}, sysfs.FirmwareTime{}, "attributes"},
		"a variable with half a character": {fstest.MapFS{loaderInit: text("\x06\x00\x00\x009\x009")}, sysfs.FirmwareTime{Took: 9 * time.Microsecond, By: sysfs.ByLoader}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := sysfs.ReadFirmwareTime(c.files)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, c.want, got)
		})
	}
	for _, file := range []string{launched, loaderInit} {
		m := sysfstest.NewMachine()
		m.File(file, "1")
		_, err := sysfs.ReadFirmwareTime(broken(m, file, syscall.EIO))
		require.ErrorIs(t, err, syscall.EIO, file)
	}
}
