package steps

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// The kernel's interface to the settings of system firmware (Documentation/ABI/testing/sysfs-class-firmware-attributes).
const (
	attributesClass = "sys/class/firmware-attributes"
	resetAttribute  = "attributes/reset_bios"
)

// resetKinds are the kinds of reset that restore the defaults, the preferred one first.
var resetKinds = []string{"factory", "builtinsafe"}

// resetBIOSSettings requests a reset of the system firmware's settings to their defaults, which happens at the next
// boot. Repeating the request before that changes nothing.
func (t Tasks) resetBIOSSettings() (*step.Returned, error) {
	root, err := os.OpenRoot(t.Root)
	if err != nil {
		return nil, fmt.Errorf("open the machine's files: %w", err)
	}
	defer root.Close()
	name, err := resetFile(root)
	if err != nil {
		return nil, err
	}
	offered, err := readSmall(root, name)
	if err != nil {
		return nil, err
	}
	options := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(offered))
	i := slices.IndexFunc(resetKinds, func(k string) bool { return slices.Contains(options, k) })
	if i < 0 {
		return nil, fmt.Errorf("the system firmware offers no reset to its defaults: %s lists %q", name, options)
	}
	kind := resetKinds[i]
	if !selected(offered, kind) {
		if err := write(root, name, kind); err != nil {
			return nil, fmt.Errorf("request a reset of the settings: %w; is a setup password set, or /sys mounted read-only?", err)
		}
		now, err := readSmall(root, name)
		if err != nil {
			return nil, err
		}
		if !selected(now, kind) {
			return nil, fmt.Errorf("the reset %s was requested, but the system firmware shows %q", kind, strings.TrimSpace(now))
		}
	}
	return &step.Returned{Reboot: true, Message: "the settings are reset (" + kind + ") at the next boot"}, nil
}

// resetFile finds the attribute that resets the settings.
func resetFile(root *os.Root) (string, error) {
	entries, err := fs.ReadDir(root.FS(), attributesClass)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(entries) == 0:
		return "", errors.New("this machine's firmware offers no attributes to the kernel; reset its settings by hand")
	case err != nil:
		return "", fmt.Errorf("list firmware attributes: %w", err)
	}
	var found []string
	for _, e := range entries {
		name := path.Join(attributesClass, e.Name(), resetAttribute)
		switch _, err := root.Stat(name); {
		case err == nil:
			found = append(found, name)
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("look for %s: %w", name, err)
		}
	}
	switch len(found) {
	case 0:
		return "", errors.New("this machine's firmware offers its settings to the kernel but no reset of them; reset them by hand")
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("several interfaces of this machine offer a reset of settings, and it is not known which one to use: %s",
		strings.Join(found, ", "))
}

// selected reports whether the kind is the one in brackets or the whole text: a kernel driver may show only the
// selected kind.
func selected(text, kind string) bool {
	fields := strings.Fields(text)
	return slices.Contains(fields, "["+kind+"]") || len(fields) == 1 && fields[0] == kind
}

// maxAttribute bounds an attribute of sysfs in bytes: one page.
const maxAttribute = 4096

func readSmall(root *os.Root, name string) (string, error) {
	f, err := root.Open(name)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxAttribute))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return string(text), nil
}

// write writes an attribute in one call, as sysfs wants it.
func write(root *os.Root, name, value string) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
