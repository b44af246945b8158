package devicename

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// maxName bounds the name of an object.
const maxName = 253

// Of is the name of the NodeDevice for a device of a node: "<node>-<class>-<unique id>", in lower case, with all but
// letters and digits left out of the unique id; "<node>-bios" for the system firmware, of which a machine has one.
// Where that is too long, the unique id has nothing to offer, or is "bios", a readable beginning is followed by eight hexadecimal
// digits of a hash.
func Of(node string, id inventory.Identity) string {
	prefix := node + "-" + strings.ToLower(string(id.Class))
	if id.Class == inventory.BIOS {
		if len(prefix) <= maxName {
			return prefix
		}
		return hashed(prefix, "")
	}
	unique := alphanumeric(id.UniqueID)
	if unique == "" || unique == "bios" { // "node-a-nic-bios" is the BIOS of node-a-nic
		return hashed(prefix, strings.Join([]string{id.VendorID, id.DeviceID, id.Vendor, id.Model, id.SerialNumber, Where(id)}, "\x00"))
	}
	if name := prefix + "-" + unique; len(name) <= maxName {
		return name
	}
	return hashed(prefix+"-"+unique, id.UniqueID)
}

// Where is the place of a device, which distinguishes devices without a unique id. They can be listed but never updated.
func Where(id inventory.Identity) string {
	if len(id.PCI) > 0 {
		return id.PCI[0].String()
	}
	return id.Node
}

// hashed is the beginning of readable and a hash of both strings.
func hashed(readable, seed string) string {
	sum := sha256.Sum256([]byte(readable + "\x00" + seed))
	suffix := "-" + hex.EncodeToString(sum[:4])
	if len(readable) > maxName-len(suffix) {
		readable = strings.TrimRight(readable[:maxName-len(suffix)], "-.")
	}
	return readable + suffix
}

func alphanumeric(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(s))
}
