package profile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// template is one argument with variables. A variable's value never becomes a second argument.
type template struct {
	text string
	// literals and names alternate: a literal, a name, a literal and so on.
	literals, names []string
}

// subject is what variables take their values from.
type subject struct {
	id  inventory.Identity
	img driver.Image
	// number is the tool's current number of the device; empty before inspect.
	number string
	// settings are those that a run stores, and setting is the one of an argument. Group is what is listed, and document the path of what the
	// tool is given.
	settings        []inventory.Setting
	setting         inventory.Setting
	group, document string
}

// variable is one of the fixed set of variables.
type variable struct {
	// safe is the pattern of allowed values. No value starts with a dash, so that none is taken for a flag.
	safe *regexp.Regexp
	of   func(s subject) string
	// ofImage says that the variable describes the image, and empty that it may have no characters.
	ofImage, empty bool
}

var word = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._:+-]{0,127}$`)

var variables = map[string]variable{
	"device.pciAddress": {
		safe: regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`),
		of: func(s subject) string {
			if len(s.id.PCI) == 0 {
				return ""
			}
			return s.id.PCI[0].String()
		},
	},
	// As the MegaRAID tools spell it, with two digits for each part, including the domain.
	"device.pciColons": {
		safe: regexp.MustCompile(`^[0-9a-f]{2}(:[0-9a-f]{2}){3}$`),
		of: func(s subject) string {
			if len(s.id.PCI) == 0 || s.id.PCI[0].Domain > 0xff {
				return ""
			}
			a := s.id.PCI[0]
			return fmt.Sprintf("%02x:%02x:%02x:%02x", a.Domain, a.Bus, a.Device, a.Function)
		},
	},
	numberVariable: {safe: regexp.MustCompile(`^[0-9]{1,4}$`), of: func(s subject) string { return s.number }},
	"device.node": {
		safe: regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,63}$`),
		of:   func(s subject) string { return s.id.Node },
	},
	"device.serialNumber": {safe: word, of: func(s subject) string { return s.id.SerialNumber }},
	"device.uniqueID":     {safe: word, of: func(s subject) string { return s.id.UniqueID }},
	"device.boardID":      {safe: word, of: func(s subject) string { return s.id.BoardID }},
	"device.macHex": {
		safe: regexp.MustCompile(`^[0-9A-F]{12}$`),
		of: func(s subject) string {
			return strings.ToUpper(strings.ReplaceAll(s.id.UniqueID, ":", ""))
		},
	},
	settingName: {
		safe: regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._:/#\[\]-]{0,127}$`),
		of:   func(s subject) string { return s.setting.Name },
	},
	settingValue: {
		safe:  regexp.MustCompile(`^([^\pC\s]([^\pC]*[^\pC\s])?)?$`),
		empty: true,
		of:    func(s subject) string { return s.setting.Value },
	},
	settingGroup:    {safe: word, of: func(s subject) string { return s.group }},
	settingDocument: {safe: regexp.MustCompile(`^/`), of: func(s subject) string { return s.document }},
	"image.path": {
		safe: regexp.MustCompile(`^/[^\x00-\x1f\x7f]+$`), ofImage: true,
		of: func(s subject) string { return s.img.Path },
	},
	"image.version": {
		safe: regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._+~-]{0,63}$`), ofImage: true,
		of: func(s subject) string { return string(s.img.Version) },
	},
	"image.sha256": {
		safe: regexp.MustCompile(`^[0-9a-f]{64}$`), ofImage: true,
		of: func(s subject) string {
			return strings.TrimPrefix(s.img.Digest.String(), "sha256:")
		},
	},
}

// numberVariable is the value of the field number that inspect found.
const numberVariable = "device.number"

// The variables of settings.
const (
	settingName     = "setting.name"
	settingValue    = "setting.value"
	settingGroup    = "settings.group"
	settingDocument = "settings.document"
)

var reference = regexp.MustCompile(`\{\{([^{}]*)\}\}`)

func parseTemplate(text string) (template, error) {
	t := template{text: text}
	rest := 0
	for _, at := range reference.FindAllStringSubmatchIndex(text, -1) {
		name := text[at[2]:at[3]]
		if _, ok := variables[name]; !ok {
			return t, fmt.Errorf("no variable {{%s}}", name)
		}
		t.literals, t.names = append(t.literals, text[rest:at[0]]), append(t.names, name)
		rest = at[1]
	}
	t.literals = append(t.literals, text[rest:])
	for _, l := range t.literals {
		if strings.Contains(l, "{{") || strings.Contains(l, "}}") {
			return t, fmt.Errorf("%q has braces that are not a variable: write {{device.node}} without blanks", text)
		}
		if strings.ContainsRune(l, 0) {
			return t, fmt.Errorf("%q contains a NUL byte", text)
		}
	}
	return t, nil
}

// fill returns the argument with its variables replaced.
func (t template) fill(s subject) (string, error) {
	var b strings.Builder
	for i, literal := range t.literals {
		b.WriteString(literal)
		if i == len(t.names) {
			break
		}
		v := variables[t.names[i]]
		value := v.of(s)
		switch {
		case value == "" && !v.empty:
			return "", fmt.Errorf("fill in %s: the device has no {{%s}}", t.text, t.names[i])
		case !v.safe.MatchString(value) && t.names[i] == "image.version":
			return "", driver.Rejectf("version %q cannot be given to the tool as {{image.version}}", value)
		case !v.safe.MatchString(value):
			return "", fmt.Errorf("fill in %s: {{%s}} is %q, which is not a safe argument for a tool", t.text, t.names[i], value)
		}
		b.WriteString(value)
	}
	if t.literals[0] == "" && strings.HasPrefix(b.String(), "-") {
		return "", fmt.Errorf("fill in %s: %q begins with a dash, and the tool would take it for an option", t.text, b.String())
	}
	return b.String(), nil
}

func fillAll(argv []template, s subject) ([]string, error) {
	out := make([]string, 0, len(argv))
	for _, t := range argv {
		arg, err := t.fill(s)
		if err != nil {
			return nil, err
		}
		out = append(out, arg)
	}
	return out, nil
}

// using returns the first variable in the templates that is accepted; empty if none is.
func using(all []template, accept func(name string) bool) string {
	for _, t := range all {
		if i := slices.IndexFunc(t.names, accept); i >= 0 {
			return t.names[i]
		}
	}
	return ""
}

func isOfImage(name string) bool { return variables[name].ofImage }

func isNumber(name string) bool { return name == numberVariable }

func isOfSetting(name string) bool { return name == settingName || name == settingValue }

func isDocument(name string) bool { return name == settingDocument }

func isImagePath(name string) bool { return name == "image.path" }
