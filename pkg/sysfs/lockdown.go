package sysfs

import (
	"fmt"
	"io/fs"
	"regexp"
)

// lockdownFile lists the levels of the kernel's lockdown and has brackets around the one in force
// (security/lockdown/lockdown.c).
const lockdownFile = "sys/kernel/security/lockdown"

var lockdownLevel = regexp.MustCompile(`\[(none|integrity|confidentiality)\]`)

// Lockdown is the level of the kernel's lockdown: "integrity" or "confidentiality", and empty without one. On either level the
// kernel lets no program write to the configuration space of a PCI device, as Secure Boot asks for. Where the security file
// system is not mounted, the level is not known and none is returned.
func Lockdown(fsys fs.FS) (string, error) {
	data, err := readFile(fsys, lockdownFile)
	if err != nil || data == nil {
		return "", err
	}
	m := lockdownLevel.FindSubmatch(data)
	switch {
	case m == nil:
		return "", fmt.Errorf("read %s: no known level in %q", lockdownFile, clean(string(data)))
	case string(m[1]) == "none":
		return "", nil
	}
	return string(m[1]), nil
}
