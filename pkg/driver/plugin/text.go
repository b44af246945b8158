package plugin

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// maxMessage bounds a text for people, in bytes.
const maxMessage = 4096

// Message returns a plugin's text for people, bounded and on one line.
func Message(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return strings.TrimSpace(text.Clip(s, maxMessage))
}

var (
	nameForm    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`)
	versionForm = regexp.MustCompile(`^[!-~]{1,64}$`)
	taskForm    = regexp.MustCompile(`^[!-~]{1,128}$`)
)

// CheckName returns an error if the name is not valid for a plugin.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("plugin name %q: want lower-case letters, digits and dashes, at most 40", name)
	}
	return nil
}

// CheckTask returns an error if the id is not valid for a task.
func CheckTask(id string) error {
	if !taskForm.MatchString(id) {
		return fmt.Errorf("task id %q: want printable characters without blanks, at most 128", id)
	}
	return nil
}

// Text returns an error when the text is not one line of at most limit bytes.
func Text(field, s string, limit int) error {
	switch {
	case len(s) > limit:
		return fmt.Errorf("%s has %d bytes, the limit is %d", field, len(s), limit)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s is not UTF-8: %q", field, s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%s has control characters: %q", field, s)
	case s != strings.TrimSpace(s):
		return fmt.Errorf("%s begins or ends with a blank: %q", field, s)
	}
	return nil
}

// maxValues and maxText bound a list, and its values in bytes.
const (
	maxValues = 256
	maxText   = 256
)

func checkList(field string, list []string) error {
	if len(list) > maxValues {
		return fmt.Errorf("%s has %d values, the limit is %d", field, len(list), maxValues)
	}
	var errs []error
	for _, s := range list {
		if s == "" {
			errs = append(errs, fmt.Errorf("%s has an empty value", field))
		}
		errs = append(errs, Text(field, s, maxText))
	}
	return errors.Join(errs...)
}
