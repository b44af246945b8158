package sysfs

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Fingerprint is equal as long as the same devices are plugged in under the same names. It reads directories and links
// only, so that looking every few seconds costs next to nothing. What containers come and go with (veth pairs,
// virtual functions and their interfaces) does not change it.
func Fingerprint(fsys fs.FS) (string, error) {
	sum := sha256.New()
	for _, dir := range []string{pciDevices, netClass, nvmeClass, scsiClass, blockDir} {
		names, err := list(fsys, dir)
		if err != nil {
			return "", err
		}
		for _, name := range names {
			target, err := follow(fsys, path.Join(dir, name))
			if err != nil {
				return "", err
			}
			if target == "" || strings.HasPrefix(target, "sys/devices/virtual/") || isVirtualFunction(fsys, dir, target) {
				continue
			}
			_, _ = io.WriteString(sum, dir+"/"+name+"\x00"+target+"\x00")
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// isVirtualFunction looks for the link to the physical function, which interfaces reach through their device.
func isVirtualFunction(fsys fs.FS, class, dir string) bool {
	switch class {
	case pciDevices:
		return exists(fsys, path.Join(dir, "physfn"))
	case netClass:
		return exists(fsys, path.Join(dir, "device/physfn"))
	}
	return false
}
