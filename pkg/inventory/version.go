package inventory

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Version is a firmware version, normalised by the driver that read it: no padding, no NULs.
type Version string

// NormalizeVersion removes NULs and surrounding blanks. It is the normaliser of drivers that need no other.
func NormalizeVersion(s string) Version {
	return Version(strings.TrimSpace(strings.Trim(s, "\x00 \t\r\n")))
}

// VersionFormat declares how the versions of a device are ordered.
type VersionFormat int

const (
	// FormatPlain versions are opaque: they are equal or different, and never ordered.
	FormatPlain VersionFormat = iota
	// FormatDotted versions are decimal sections between dots ("22.41.1000"), ordered section by section.
	FormatDotted
)

// Order is the outcome of a comparison.
type Order int

// The outcomes of Compare.
const (
	Incomparable Order = iota
	Older
	Same
	Newer
)

// Compare compares v with other in the format: Older means that v is older than other. Versions of a format they do not follow, and unequal
// plain versions, are Incomparable.
func (v Version) Compare(other Version, format VersionFormat) Order {
	if v == other {
		return Same
	}
	if format != FormatDotted {
		return Incomparable
	}
	a, okA := sections(v)
	b, okB := sections(other)
	if !okA || !okB {
		return Incomparable
	}
	for i := range max(len(a), len(b)) {
		x, y := at(a, i), at(b, i)
		if x != y {
			if x < y {
				return Older
			}
			return Newer
		}
	}
	return Same
}

func sections(v Version) ([]uint64, bool) {
	fields := strings.Split(string(v), ".")
	out := make([]uint64, 0, len(fields))
	for _, f := range fields {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil || f[0] == '+' {
			return nil, false
		}
		out = append(out, n)
	}
	return out, true
}

func at(s []uint64, i int) uint64 {
	if i < len(s) {
		return s[i]
	}
	return 0
}

// Digest is the SHA-256 of an image's bytes.
type Digest [32]byte

// ParseDigest parses "sha256:" and 64 lower-case hexadecimal digits.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	digits := strings.TrimPrefix(strings.ToLower(s), "sha256:")
	n, err := hex.Decode(d[:], []byte(digits[:min(len(digits), 64)]))
	switch proper := "sha256:" + digits; {
	case err != nil || n != len(d) || len(digits) != 64:
		return Digest{}, fmt.Errorf("parse digest %q: want sha256: and 64 lower-case hexadecimal digits", s)
	case s != proper:
		return Digest{}, fmt.Errorf("parse digest %q: write it as %s", s, proper)
	}
	return d, nil
}

// String is "sha256:" and 64 hexadecimal digits.
func (d Digest) String() string { return "sha256:" + hex.EncodeToString(d[:]) }
