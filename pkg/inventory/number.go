package inventory

import (
	"fmt"
	"math/big"
	"strings"
)

// NumberFormats are the ways in which fwupd spells a version that is a number of 32 bits, by its own names for them.
var NumberFormats = [...]string{
	"number", "hex", "pair", "triplet", "quad", "bcd", "dell-bios", "dell-bios-msb", "compal-bios", "intel-me", "intel-me2", "intel-csme19", "surface", "surface-legacy",
}

// SpellNumber spells a number in one of the NumberFormats (fwupd, libfwupdplugin/fu-version-common.c); empty for another one.
func SpellNumber(format string, n uint32) string {
	bits := func(from, count uint) uint32 { return n >> from & (1<<count - 1) }
	bcd := func(from uint) uint32 { return bits(from+4, 4)*10 + bits(from, 4) }
	dotted := func(a, b, c, d uint32) string { return fmt.Sprintf("%d.%d.%d.%d", a, b, c, d) }
	three := func(a, b, c uint32) string { return fmt.Sprintf("%d.%d.%d", a, b, c) }
	switch format {
	case "number":
		return fmt.Sprintf("%d", n)
	case "hex":
		return fmt.Sprintf("0x%08x", n)
	case "pair":
		return fmt.Sprintf("%d.%d", bits(16, 16), bits(0, 16))
	case "triplet":
		return three(bits(24, 8), bits(16, 8), bits(0, 16))
	case "quad":
		return dotted(bits(24, 8), bits(16, 8), bits(8, 8), bits(0, 8))
	case "bcd":
		return dotted(bcd(24), bcd(16), bcd(8), bcd(0))
	case "dell-bios":
		return three(bits(16, 8), bits(8, 8), bits(0, 8))
	case "dell-bios-msb":
		return three(bits(24, 8), bits(16, 8), bits(8, 8))
	case "compal-bios":
		return fmt.Sprintf("%02x.%02x", bits(8, 8), bits(0, 8))
	case "intel-me":
		return dotted(bits(29, 3)+11, bits(24, 5), bits(16, 8), bits(0, 16))
	case "intel-me2":
		return dotted(bits(28, 4), bits(24, 4), bits(16, 8), bits(0, 16))
	case "intel-csme19":
		return dotted(bits(29, 3)+19, bits(24, 5), bits(16, 8), bits(0, 16))
	case "surface":
		return three(bits(24, 8), bits(8, 16), bits(0, 8))
	case "surface-legacy":
		return three(bits(22, 10), bits(10, 12), bits(0, 10))
	}
	return ""
}

// coded splits what is spelled as TEXT, NUMBER or TEXT(NUMBER).
func coded(s string) (word string, code *big.Int) {
	s = strings.TrimSpace(s)
	if n := ParseNumber(s); n != nil {
		return "", n
	}
	if head, tail, ok := strings.Cut(s, "("); ok && strings.HasSuffix(tail, ")") {
		if n := ParseNumber(strings.TrimSuffix(tail, ")")); n != nil {
			return head, n
		}
	}
	return s, nil
}

// maxDigits bounds what is taken for a number.
const maxDigits = 64

// ParseNumber reads a number as all settings spell it: in decimal digits, or in hexadecimal ones after 0x, with blanks around it. It is nil for
// anything else. A leading 0 does not make it octal.
func ParseNumber(s string) *big.Int {
	s = strings.TrimSpace(s)
	digits, base := strings.TrimPrefix(s, "-"), 10
	if hex, ok := strings.CutPrefix(strings.ToLower(digits), "0x"); ok {
		digits, base = hex, 16
	}
	if digits == "" || len(digits) > maxDigits || strings.Trim(strings.ToLower(digits), "0123456789abcdef"[:base]) != "" {
		return nil
	}
	n, _ := new(big.Int).SetString(digits, base)
	if strings.HasPrefix(s, "-") {
		n.Neg(n)
	}
	return n
}

// DecimalOf is the number of a value, as a tool takes it: in decimal digits, and without the text of TEXT(NUMBER), which a version of the tool may
// spell otherwise. A value without a number of 64 bits is returned as it is, without the blanks around it.
func DecimalOf(value string) string {
	if _, n := coded(value); n != nil && (n.IsInt64() || n.IsUint64()) {
		return n.String()
	}
	return strings.TrimSpace(value)
}
