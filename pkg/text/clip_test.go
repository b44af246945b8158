package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

func TestClip(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"short enough":             {"write firmware: exit code 1", 40, "write firmware: exit code 1"},
		"exactly as long":          {"12345678901234567890", 20, "12345678901234567890"},
		"the middle is cut out":    {"write firmware of nvme0: exit code 1: no space left", 25, "write firm ... space left"},
		"no room for the mark":     {"0000:3b:00.0", 4, "0000"},
		"nothing is wanted":        {"text", 0, ""},
		"not UTF-8":                {"a\xff\xfeb\xff", 20, "a?b?"},
		"no character in two":      {strings.Repeat("ö", 20), 22, "öööö ... öööö"},
		"neither at a small limit": {"öö", 3, "ö"},
	} {
		assert.Equal(t, c.want, text.Clip(c.text, c.limit), name)
	}
}

func FuzzClip(f *testing.F) {
	f.Add("write firmware: exit code 1", 20)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit &= 1<<10 - 1
		got := text.Clip(s, limit)
		assert.True(t, utf8.ValidString(got))
		assert.LessOrEqual(t, len(got), limit)
	})
}

// What a terminal would act on is not printed: a message may have what a device says of itself.
func TestPrintable(t *testing.T) {
	for given, want := range map[string]string{
		"plain, größer, 漢字 …": "plain, größer, 漢字 …", "two\nlines\tand a tab": "two\nlines and a tab", "\x1b[2Jgone\x07": "\ufffd[2Jgone\ufffd",
		"\u009b31m": "\ufffd31m", "over\u202ewritten": "over\ufffdwritten", "back\rslash\b": "back slash\ufffd", "": "",
	} {
		assert.Equal(t, want, text.Printable(given))
	}
}
