package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// entryName is the parsed name of an entry's directory.
type entryName struct {
	version   inventory.Version
	bootID    string
	unhealthy bool
}

const unhealthySuffix = "unhealthy"

// Entry is the name of the entry that a store makes for the manifest.
func (m Manifest) Entry() string { return deviceDir(m.UniqueID) + "/" + m.name().String() }

func (m Manifest) name() entryName { return entryName{m.Version, m.BootID, m.Unhealthy} }

func (n entryName) String() string {
	s := escape(string(n.version)) + "_" + escape(n.bootID)
	if n.unhealthy {
		s += "_" + unhealthySuffix
	}
	return s
}

// parseName parses a name from String. For any other name, which is not of this store, ok is false.
func parseName(s string) (n entryName, ok bool) {
	parts := strings.Split(s, "_")
	if len(parts) == 3 && parts[2] == unhealthySuffix {
		n.unhealthy, parts = true, parts[:2]
	}
	if len(parts) != 2 {
		return entryName{}, false
	}
	version, okVersion := unescape(parts[0])
	bootID, okBoot := unescape(parts[1])
	n.version, n.bootID = inventory.Version(version), bootID
	return n, okVersion && okBoot
}

// maxName is the maximum length of a name on file systems, less the prefixes of temporary names.
const maxName = 240

func (n entryName) check() error {
	if s := n.String(); len(s) > maxName {
		return fmt.Errorf("name archive of version %s: %q is longer than %d bytes", n.version, s, maxName)
	}
	return nil
}

// deviceDir is the directory name of a device. A name that would be too long ends in "_" and a digest; no other has a
// "_".
func deviceDir(uniqueID string) string {
	name := escape(uniqueID)
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(uniqueID))
	return name[:128] + "_" + hex.EncodeToString(sum[:16])
}

const hexDigits = "0123456789ABCDEF"

// escape turns any text into one path element, different for different texts. Separators, blanks, "_" and a leading "."
// become %XX.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; plain(c) && (i > 0 || c != '.') {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(".-+~:", c) >= 0
}

// unescape is the inverse of escape. For a text that escape cannot return, ok is false.
func unescape(s string) (text string, ok bool) {
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		raw, err := hex.DecodeString(s[i+1 : min(i+3, len(s))])
		if err != nil || len(raw) != 1 {
			return "", false
		}
		b, i = append(b, raw[0]), i+2
	}
	return string(b), len(b) > 0 && escape(string(b)) == s
}
