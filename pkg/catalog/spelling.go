package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Spelling says how versions are read as numbers, which orders them. It is declared by a provider for each release, and decided for a
// component by SpellingOf.
type Spelling int

const (
	// Undeclared is what a provider says that says nothing; the release is then read as others of its component.
	Undeclared Spelling = iota
	// Text is not read: such a version is equal to another one or different from it.
	Text
	// Decimal is the format Dotted: decimal sections between dots.
	Decimal
	// Hexadecimal is sections in hexadecimal between dots, each with or without 0x.
	Hexadecimal
)

// SpellingOf is how the versions of a component are read: as its driver declares, otherwise as the providers do. Versions that are spelled
// otherwise, or cannot be read, are not ordered; the others are.
func SpellingOf(driverDeclares inventory.VersionFormat, providers ...Spelling) Spelling {
	switch {
	case driverDeclares == inventory.FormatDotted, slices.Contains(providers, Decimal):
		return Decimal
	case slices.Contains(providers, Hexadecimal):
		return Hexadecimal
	}
	return Text
}

// Compare compares two versions that are spelled so. What cannot be read is Incomparable, except with itself.
func (s Spelling) Compare(a, b string) inventory.Order {
	if a == b {
		return inventory.Same
	}
	x, okX := s.decimal(a)
	y, okY := s.decimal(b)
	if !okX || !okY {
		return inventory.Incomparable
	}
	return x.Compare(y, inventory.FormatDotted)
}

// reads reports whether a version can be ordered among others that are spelled so.
func (s Spelling) reads(version string) bool {
	_, ok := s.decimal(version)
	return ok
}

// Orders reports whether a release can be ordered where the component is spelled so.
func (s Spelling) Orders(r Release) bool {
	return (r.Spelling == s || r.Spelling == Undeclared) && s.reads(r.Version)
}

// decimal is the version as decimal sections.
func (s Spelling) decimal(version string) (inventory.Version, bool) {
	switch s {
	case Decimal:
	case Hexadecimal:
		sections := strings.Split(version, ".")
		for i, digits := range sections {
			n, err := strconv.ParseUint(strings.TrimPrefix(digits, "0x"), 16, 64)
			if err != nil {
				return "", false
			}
			sections[i] = strconv.FormatUint(n, 10)
		}
		version = strings.Join(sections, ".")
	default:
		return "", false
	}
	v := inventory.Version(version)
	return v, v.Compare(v+".0", inventory.FormatDotted) == inventory.Same
}

// newestFirst orders releases for a list: those that can be read, newest first, then the others.
func (s Spelling) newestFirst(a, b Release) int {
	x, y := s.Orders(a), s.Orders(b)
	switch {
	case x && y:
		switch s.Compare(a.Version, b.Version) {
		case inventory.Newer:
			return -1
		case inventory.Older:
			return 1
		}
	case x:
		return -1
	case y:
		return 1
	}
	return 0
}

// lvfsLayout is how fwupd makes a version of an undivided number of 32 bits: sections of so many bits, from the highest one down, below
// those that are skipped (fwupd, "Version Formats").
type lvfsLayout struct {
	skip int
	bits []int
	// add is what the first section counts from.
	add uint64
	// bcd says that each half of a byte is a decimal digit.
	bcd bool
}

// lvfsLayouts are the formats whose sections are decimal. The others are hex and compal-bios, whose sections are hexadecimal, and plain, which
// is text.
var lvfsLayouts = map[string]lvfsLayout{
	"number":         {bits: []int{32}},
	"pair":           {bits: []int{16, 16}},
	"triplet":        {bits: []int{8, 8, 16}},
	"quad":           {bits: []int{8, 8, 8, 8}},
	"bcd":            {bits: []int{8, 8, 8, 8}, bcd: true},
	"intel-me":       {bits: []int{3, 5, 8, 16}, add: 11},
	"intel-me2":      {bits: []int{4, 4, 8, 16}},
	"intel-csme19":   {bits: []int{3, 5, 8, 16}, add: 19},
	"surface-legacy": {bits: []int{10, 12, 10}},
	"surface":        {bits: []int{8, 16, 8}},
	"dell-bios":      {skip: 8, bits: []int{8, 8, 8}},
	"dell-bios-msb":  {bits: []int{8, 8, 8}},
}

// lvfsVersion reads a version of LVFS metadata by the LVFS::VersionFormat of its component, and spells it as a device does: older metadata
// has the undivided number that the firmware keeps. A version that does not follow the format is text, and so is what fwupd takes for a date.
func lvfsVersion(format, version string) (string, Spelling) {
	n, err := strconv.ParseUint(version, 0, 32)
	layout, known := lvfsLayouts[format]
	isDate := strings.HasPrefix(version, "20") && len(version) == 8
	undivided := err == nil && !isDate && (n > 0 || len(layout.bits) == 1)
	switch {
	case format == "":
		return version, Undeclared
	case format == "compal-bios" && undivided:
		return fmt.Sprintf("%02x.%02x", n>>8&0xff, n&0xff), Hexadecimal
	case format == "hex" && strings.Count(version, ".") == 0, format == "compal-bios" && strings.Count(version, ".") == 1:
		if Hexadecimal.reads(version) {
			return version, Hexadecimal
		}
	case !known:
	case undivided:
		return layout.version(n), Decimal
	case layout.has(strings.Count(version, ".")+1) && Decimal.reads(version):
		return version, Decimal
	}
	return version, Text
}

// has reports whether a version of the format has so many sections; one in BCD may be that of a number of 16 bits.
func (l lvfsLayout) has(sections int) bool {
	return sections == len(l.bits) || l.bcd && sections == 2
}

func (l lvfsLayout) version(n uint64) string {
	out := make([]string, 0, len(l.bits))
	left := 32 - l.skip
	for i, bits := range l.bits {
		left -= bits
		section := n >> left & (1<<bits - 1)
		if l.bcd {
			section = section>>4*10 + section&0xf
		}
		if i == 0 {
			section += l.add
		}
		out = append(out, strconv.FormatUint(section, 10))
	}
	return strings.Join(out, ".")
}

// mellanox is the PCI vendor id of NVIDIA's adapters.
const mellanox = "15b3"

// dellVersion reads a version of Dell's catalog for a component and spells it as the device does. Dell counts the versions of some vendors
// itself; only where its rule is known is a version more than text:
//   - a BIOS reports what the catalog says;
//   - an adapter of NVIDIA that reports 22.41.1000 is 22.41.10.00, and 2.42.5000 is 02.42.50.00: the last section is divided after two digits.
func dellVersion(c Component, version string) (string, Spelling) {
	switch {
	case c.Class == "BIOS":
		return version, Undeclared
	case strings.EqualFold(c.VendorID, mellanox):
		sections := strings.Split(version, ".")
		if len(sections) != 4 || len(sections[2]) != 2 || len(sections[3]) != 2 || !Decimal.reads(version) {
			return version, Text
		}
		if len(sections[0]) == 2 {
			sections[0] = strings.TrimPrefix(sections[0], "0")
		}
		return sections[0] + "." + sections[1] + "." + sections[2] + sections[3], Undeclared
	}
	return version, Text
}
