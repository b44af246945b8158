package fwupd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// identity is the part of the answer to IDENTIFY DEVICE (ACS-4, 7.13.6) that is about firmware.
type identity struct {
	Model, Serial string
	Version       inventory.Version
	// Downloads says that the drive takes microcode.
	Downloads bool
}

// Sizes of the answer and of the version in it, in bytes.
const (
	identifySize = 512
	maxVersion   = 8
)

// exitUnitAttention is sg3_utils' exit code for a command that was not executed because the drive first had to report
// that it was reset.
const exitUnitAttention = 6

// identify reads the drive itself, through the translation layer of its controller. It checks that the device node
// still belongs to the same drive: names move to another drive when one is pulled and another plugged in.
func (d *ATA) identify(ctx context.Context, id inventory.Identity) (identity, error) {
	if id.Node == "" {
		return identity{}, fmt.Errorf("find drive %s: the kernel has no device for it", id.UniqueID)
	}
	c := identifyDrive(id)
	r, err := d.runner.Run(ctx, c)
	if err == nil && r.ExitCode == exitUnitAttention {
		r, err = d.runner.Run(ctx, c)
	}
	switch {
	case err != nil:
		return identity{}, fmt.Errorf("identify %s: %w", node(id), err)
	case r.ExitCode != 0:
		return identity{}, fmt.Errorf("identify %s: %w", node(id),
			command.Failed(c, r, errors.New("the drive did not answer, or its controller passes no ATA commands through")))
	}
	drive, err := parseIdentify(r.Stdout)
	if err != nil {
		return identity{}, fmt.Errorf("identify %s: %w", node(id), err)
	}
	if id.SerialNumber != "" && inventory.NormalizeID(drive.Serial) != inventory.NormalizeID(id.SerialNumber) {
		return identity{}, fmt.Errorf("find drive %s: %s is another drive now, with serial number %s instead of %s: scan again",
			id.UniqueID, node(id), drive.Serial, id.SerialNumber)
	}
	return drive, nil
}

// parseIdentify reads the binary answer to IDENTIFY DEVICE: 256 words, whose strings have their bytes swapped.
func parseIdentify(out []byte) (identity, error) {
	if len(out) != identifySize {
		return identity{}, fmt.Errorf("parse IDENTIFY data: %d bytes instead of %d", len(out), identifySize)
	}
	word := func(n int) uint16 { return binary.LittleEndian.Uint16(out[2*n:]) }
	if byte(word(255)) == 0xa5 { // the signature says that a checksum is present
		var sum byte
		for _, b := range out {
			sum += b
		}
		if sum != 0 {
			return identity{}, errors.New("parse IDENTIFY data: wrong checksum")
		}
	}
	if word(0)&0x8000 != 0 {
		return identity{}, errors.New("parse IDENTIFY data: not an ATA device")
	}
	var drive identity
	var err error
	if drive.Model, err = ataString(out, 27, 46); err != nil {
		return identity{}, fmt.Errorf("parse IDENTIFY data: model: %w", err)
	}
	if drive.Serial, err = ataString(out, 10, 19); err != nil {
		return identity{}, fmt.Errorf("parse IDENTIFY data: serial number: %w", err)
	}
	version, err := ataString(out, 23, 26)
	if err != nil {
		return identity{}, fmt.Errorf("parse IDENTIFY data: version: %w", err)
	}
	if drive.Version = inventory.NormalizeVersion(version); drive.Version == "" {
		return identity{}, errors.New("parse IDENTIFY data: the version is empty")
	}
	// Word 83 says what is supported, if its two highest bits mark it as valid; word 86 what is enabled.
	drive.Downloads = word(83)&0xc000 == 0x4000 && word(83)&1 != 0 && word(86)&1 != 0
	return drive, nil
}

// ataString is the text in the words from first to last, without its padding.
func ataString(out []byte, first, last int) (string, error) {
	var b strings.Builder
	for i := 2 * first; i <= 2*last; i += 2 {
		b.WriteByte(out[i+1])
		b.WriteByte(out[i])
	}
	s := strings.Trim(b.String(), " \x00")
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return "", fmt.Errorf("%q is not ASCII", s)
		}
	}
	return s, nil
}
