package attributes

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// orderedList is the type of settings whose values are all elements in some order.
const orderedList = "ordered-list"

// assignment is a value that a setting is given, as the kernel takes it.
type assignment struct {
	setting
	value string
}

// values look up the value that another setting of the interface has, or is going to have; nil when there is no such setting, or it cannot be read.
type values func(of *sysfs.FirmwareInterface, name string) (*string, error)

// parameter is the setting, which is locked by something that is not its own.
func (s setting) parameter(locked string) inventory.Parameter {
	p := inventory.Parameter{Name: s.called, Needs: inventory.ActivateReboot, Domain: s.domain()}
	if s.Type == "integer" {
		p.Spelling = inventory.SpelledAsNumber
	}
	if s.Err != nil {
		p.ReadOnly = fmt.Sprintf("it cannot be read: %v", s.Err)
		return p
	}
	p.Next = inventory.Read(s.listed(*s.Current))
	if s.of.PendingReboot != nil && *s.of.PendingReboot == 0 && s.of.Name != hpBIOS { // HP's says 1 only of what a person has to confirm
		p.Current = p.Next
	}
	if s.Default != nil {
		p.Default = inventory.Read(s.listed(*s.Default))
		if inventory.CheckSettings([]inventory.Setting{{Name: p.Name, Value: p.Default.Value}}, []inventory.Parameter{p}) != nil {
			p.Default = inventory.Reading{} // an empty text stands for none
		}
	}
	p.ReadOnly = locked
	if !s.Writable {
		p.ReadOnly = "the kernel lets nobody write it"
	}
	return p
}

// listed is a value with one spelling of lists: after a change HP's driver shows commas where it showed semicolons before.
func (s setting) listed(value string) string {
	if s.Type != orderedList {
		return value
	}
	return strings.ReplaceAll(value, ",", ";")
}

func (s setting) domain() inventory.Domain {
	switch {
	case s.Type == "enumeration":
		return inventory.Domain{Values: s.Possible}
	case s.Min == nil && s.Max == nil && s.Type != "integer":
		return inventory.Domain{}
	}
	bounds := &inventory.Interval{Max: math.MaxInt64}
	if s.Type == "integer" {
		bounds.Min = math.MinInt64
	}
	if s.Min != nil {
		bounds.Min = *s.Min
	}
	if s.Max != nil {
		bounds.Max = *s.Max
	}
	if s.Increment != nil {
		bounds.Step = *s.Increment
	}
	if s.Type == "integer" && bounds.Max < bounds.Min { // HP's driver shows unsigned bounds as signed numbers
		bounds = &inventory.Interval{Min: math.MinInt64, Max: math.MaxInt64}
	}
	switch s.Type {
	case "integer":
		return inventory.Domain{Number: bounds}
	case "string":
		return inventory.Domain{Length: bounds}
	}
	return inventory.Domain{}
}

// refuses says why a value is none that the kernel's file can be told; empty when it is.
func (s setting) refuses(value string) string {
	switch {
	case s.Type == "integer": // its domain takes numbers alone
		return ""
	case strings.ContainsFunc(value, unicode.IsControl), strings.TrimSpace(value) != value:
		return fmt.Sprintf("%s cannot be %q: blanks at the ends and control characters are not kept", s.called, value)
	case s.of.Name == thinkLMI && strings.ContainsAny(value, ",;"): // what follows would be taken for the password
		return fmt.Sprintf("%s cannot be %q: the firmware takes no commas and semicolons in a value", s.called, value)
	case s.Type == orderedList && !isReordered(value, s.listed(*s.Current)):
		return fmt.Sprintf("%s cannot be %s: it takes what it has, in any order, with semicolons between: %s", s.called, value, s.listed(*s.Current))
	}
	return ""
}

// isReordered reports whether both have the same elements.
func isReordered(a, b string) bool {
	x, y := strings.Split(a, ";"), strings.Split(b, ";")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// written is the value as the kernel takes it: a number in decimal digits.
func (s setting) written(value string) string {
	if s.Type != "integer" {
		return value
	}
	return inventory.DecimalOf(value)
}

// rule is a dependency on another setting: [ReadOnlyIf:<attribute>=<value>], or one on a value: <value>[ForceIf:<attribute>=<value>].
type rule struct {
	// forced is the value that the setting is made; empty where the rule is about the setting.
	forced, kind, attribute, value string
}

var ruleForm = regexp.MustCompile(`([^;\[\]]*)\[(ReadOnlyIf|ReadOnlyIfNot|SuppressIf|SuppressIfNot|ForceIf|ForceIfNot):([^=\[\]]+)=([^\[\]]*)\]`)

// parseRules reads dell_modifier and dell_value_modifier. What is no rule is left out: it is a remark on what the firmware decides in any case.
func parseRules(text string) []rule {
	var out []rule
	for _, m := range ruleForm.FindAllStringSubmatch(text, -1) {
		out = append(out, rule{strings.TrimSpace(m[1]), m[2], strings.TrimSpace(m[3]), strings.TrimSpace(m[4])})
	}
	return out
}

// holds reports whether the rule applies. One about a setting that is not there is left to the firmware.
func (r rule) holds(of *sysfs.FirmwareInterface, at values) (bool, error) {
	value, err := at(of, r.attribute)
	if err != nil {
		return false, fmt.Errorf("it is not known whether a value has an effect (%s:%s=%s): %w", r.kind, r.attribute, r.value, err)
	}
	return value != nil && strings.EqualFold(*value, r.value) != strings.HasSuffix(r.kind, "Not"), nil
}

// modified says by which rule the firmware takes a value and does not use it; empty when by none. The error says which cannot be judged.
func (s setting) modified(at values) (string, error) {
	var doubt error
	for _, r := range s.rules() {
		holds, err := r.holds(s.of, at)
		doubt = errors.Join(doubt, err)
		switch {
		case holds && strings.HasPrefix(r.kind, "Force"):
			return fmt.Sprintf("the system firmware makes it %s (%s:%s=%s): change %s first", r.forced, r.kind, r.attribute, r.value, r.attribute), nil
		case holds:
			return fmt.Sprintf("it has no effect (%s:%s=%s): change %s first", r.kind, r.attribute, r.value, r.attribute), nil
		}
	}
	return "", doubt
}

func (s setting) rules() []rule {
	return append(parseRules(s.Modifier), parseRules(s.ValueModifier)...)
}

// inOrder puts settings on which others depend before these.
func inOrder(todo []assignment) []assignment {
	type attribute struct {
		of   *sysfs.FirmwareInterface
		name string
	}
	decides := map[attribute]bool{}
	for _, a := range todo {
		for _, r := range a.rules() {
			decides[attribute{a.of, r.attribute}] = true
		}
	}
	var before, after []assignment
	for _, a := range todo {
		if decides[attribute{a.of, a.Name}] {
			before = append(before, a)
		} else {
			after = append(after, a)
		}
	}
	return append(before, after...)
}

// maxSaves is how often Lenovo's firmware saves settings between two boots; its driver saves after each value unless it has save_settings (Linux 6.6).
const maxSaves = 48

func tooManySaves(todo []assignment) []error {
	n, way := 0, ""
	for _, a := range todo {
		switch {
		case a.of.Name != thinkLMI:
		case a.of.SaveMode == "":
			n, way = n+1, "a kernel from 6.6 on saves them at once"
		case changed(*a.of):
			n, way = n+1, "restart the machine first, after which they are saved at once"
		}
	}
	if n <= maxSaves {
		return nil
	}
	return []error{fmt.Errorf("%d settings are to be changed, and the system firmware saves only %d between two boots: %s", n, maxSaves, way)}
}
