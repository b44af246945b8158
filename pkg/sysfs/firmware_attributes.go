package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// FirmwareInterface is a kernel driver through which system firmware shows its settings (sys/class/firmware-attributes/<name>/), as
// Documentation/ABI/testing/sysfs-class-firmware-attributes describes it.
type FirmwareInterface struct {
	// Name is that of its directory, such as "dell-wmi-sysman", "thinklmi" and "hp-bioscfg".
	Name string
	// Path is the real directory.
	Path string
	// Attributes are the names of the settings, in order (attributes/<name>/).
	Attributes []string
	// PendingReboot is 1 once a setting was changed through the driver since the boot, and 0 before; nil where the driver does not say
	// (attributes/pending_reboot).
	PendingReboot *int
	// SaveMode is "single" or "bulk" where the driver saves what was changed; empty elsewhere (attributes/save_settings).
	SaveMode string
	// Authentications are the ways to prove that one may change settings, in order of name.
	Authentications []FirmwareAuthentication
}

// FirmwareAuthentication is one of these ways (authentication/<name>/).
type FirmwareAuthentication struct {
	Name string
	// Enabled says that it is in use (is_enabled).
	Enabled bool
	// Role says what it protects, such as "bios-admin" and "power-on" (role), and Mechanism how, such as "password" (mechanism).
	Role, Mechanism string
	// Err says what could not be read of one that is in use, or may be.
	Err error
}

// FirmwareAttribute is a setting of system firmware.
type FirmwareAttribute struct {
	Name string
	// Type is "enumeration", "integer", "string", or "ordered-list" (type).
	Type string
	// Current is the value that the firmware stores (current_value), and Default that of a reset; nil where it says none (default_value).
	Current, Default *string
	// Possible are the values of an enumeration (possible_values). Elements are those of an ordered list in the order of their priority
	// (elements).
	Possible, Elements []string
	// Min and Max bound an integer (min_value, max_value), or the length of a text (min_length, max_length); nil where they are not said.
	// Increment is the step between integers (scalar_increment).
	Min, Max, Increment *int64
	// Modifier says when the setting has no effect, ValueModifier when it is made another (dell_modifier, dell_value_modifier).
	Modifier, ValueModifier string
	// Writable says that the kernel lets anybody write it (the mode of current_value).
	Writable bool
	// Err says what could not be read.
	Err error
}

const firmwareClass = "sys/class/firmware-attributes"

// maxFirmwareAttributes bounds what one driver may show.
const maxFirmwareAttributes = 16384

// FirmwareInterfaces lists the drivers, in order of name; none where no driver is loaded or the machine has none. It reads no setting.
func FirmwareInterfaces(fsys fs.FS) ([]FirmwareInterface, error) {
	names, err := list(fsys, firmwareClass)
	if err != nil {
		return nil, err
	}
	var out []FirmwareInterface
	for _, name := range names {
		dir, err := follow(fsys, path.Join(firmwareClass, name))
		if err != nil {
			return nil, err
		}
		if dir == "" {
			continue
		}
		i, err := firmwareInterfaceAt(fsys, dir)
		if err != nil {
			return nil, err
		}
		i.Name = name
		out = append(out, i)
	}
	return out, nil
}

func firmwareInterfaceAt(fsys fs.FS, dir string) (FirmwareInterface, error) {
	a := attributes{fsys: fsys, dir: dir}
	i := FirmwareInterface{Path: dir, PendingReboot: a.number("attributes/pending_reboot"), SaveMode: a.text("attributes/save_settings")}
	entries, err := list(fsys, path.Join(dir, "attributes"))
	a.err = errors.Join(a.err, err)
	if len(entries) > maxFirmwareAttributes {
		return i, fmt.Errorf("list %s/attributes: %d entries are more than %d", dir, len(entries), maxFirmwareAttributes)
	}
	for _, name := range entries {
		// Beside the settings are files, and directories of other things, such as the audit log of HP.
		_, err := fs.Stat(fsys, path.Join(dir, "attributes", name, "type"))
		if isPlain(name) && !absent(err) && !errors.Is(err, syscall.ENOTDIR) {
			i.Attributes = append(i.Attributes, name)
		}
	}
	ways, err := list(fsys, path.Join(dir, "authentication"))
	a.err = errors.Join(a.err, err)
	for _, name := range ways {
		of := attributes{fsys: fsys, dir: path.Join(dir, "authentication", name)}
		enabled := of.number("is_enabled")
		if !isPlain(name) || enabled == nil && of.err == nil {
			continue
		}
		way := FirmwareAuthentication{Name: name, Enabled: enabled == nil || *enabled != 0, Role: of.text("role"), Mechanism: of.text("mechanism")}
		if way.Enabled {
			way.Err = of.err
		}
		i.Authentications = append(i.Authentications, way)
	}
	return i, a.err
}

// isPlain reports whether a name can be written in a document.
func isPlain(name string) bool {
	return utf8.ValidString(name) && strings.IndexFunc(name, unicode.IsControl) < 0
}

// ReadAttribute reads a setting of the interface.
func (i FirmwareInterface) ReadAttribute(fsys fs.FS, name string) FirmwareAttribute {
	out := FirmwareAttribute{Name: name}
	if !slices.Contains(i.Attributes, name) {
		out.Err = fmt.Errorf("read %s/attributes: no attribute %q", i.Path, name)
		return out
	}
	a := attributes{fsys: fsys, dir: path.Join(i.Path, "attributes", name)}
	out.Type, out.Current, out.Default = a.text("type"), a.optional("current_value"), a.optional("default_value")
	switch out.Type {
	case "enumeration":
		out.Possible = a.values("possible_values")
	case "ordered-list":
		out.Elements = a.values("elements")
	case "integer":
		out.Min, out.Max, out.Increment = a.integer("min_value"), a.integer("max_value"), a.integer("scalar_increment")
	case "string":
		out.Min, out.Max = a.integer("min_length"), a.integer("max_length")
	default:
		a.err = errors.Join(a.err, fmt.Errorf("read %s/type: %q is no known type", a.dir, out.Type))
	}
	out.Modifier, out.ValueModifier = a.text("dell_modifier"), a.text("dell_value_modifier")
	if out.Current == nil && a.err == nil {
		a.err = fmt.Errorf("read %s/current_value: no such file", a.dir)
	}
	const anybody = 0o222
	switch info, err := fs.Stat(fsys, path.Join(a.dir, "current_value")); {
	case err == nil:
		out.Writable = info.Mode().Perm()&anybody != 0
	case !absent(err):
		a.err = errors.Join(a.err, named("read mode of", path.Join(a.dir, "current_value"), err))
	}
	out.Err = a.err
	return out
}

// optional is the cleaned content of a file; nil when it is absent.
func (a *attributes) optional(name string) *string {
	data := a.bytes(name)
	if data == nil {
		return nil
	}
	text := clean(string(data))
	return &text
}

// values are the parts of a text between semicolons.
func (a *attributes) values(name string) []string {
	var out []string
	for value := range strings.SplitSeq(a.text(name), ";") {
		if value = strings.TrimSpace(value); value != "" {
			out = append(out, value)
		}
	}
	return out
}

// integer is a number as settings spell it; nil when it is absent or says nothing.
func (a *attributes) integer(name string) *int64 {
	text := a.text(name)
	if text == "" {
		return nil
	}
	n := inventory.ParseNumber(text)
	if n == nil || !n.IsInt64() {
		a.err = errors.Join(a.err, fmt.Errorf("read %s: %q is not a number", path.Join(a.dir, name), text))
		return nil
	}
	value := n.Int64()
	return &value
}
