package inventory

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// Digest is the SHA-256 of an image's bytes.
type Digest [32]byte

// ParseDigest parses "sha256:" and 64 lower-case hexadecimal digits.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	digits, ok := strings.CutPrefix(s, "sha256:")
	if !ok || len(digits) != 64 || digits != strings.ToLower(digits) {
		return d, fmt.Errorf("parse digest %q: want sha256: and 64 lower-case hexadecimal digits", s)
	}
	if _, err := hex.Decode(d[:], []byte(digits)); err != nil {
		return d, fmt.Errorf("parse digest %q: %w", s, err)
	}
	return d, nil
}

// String is "sha256:" and 64 hexadecimal digits.
func (d Digest) String() string { return "sha256:" + hex.EncodeToString(d[:]) }
