package text

import (
	"fmt"
	"strings"
	"unicode"
)

// gap marks where something was cut out.
const gap = " ... "

// Clip returns s as valid UTF-8 of at most limit bytes: what is not UTF-8 becomes question marks. The middle of a longer text is replaced
// by " ... ", because the beginning names the failed command and the end is its output. A limit too small for that keeps the beginning
// alone. No character is cut in two.
func Clip(s string, limit int) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= limit {
		return s
	}
	if limit < 4*len(gap) {
		return strings.ToValidUTF8(s[:max(limit, 0)], "")
	}
	half := (limit - len(gap)) / 2
	return strings.ToValidUTF8(s[:half], "") + gap + strings.ToValidUTF8(s[len(s)-half:], "")
}

// Slug spells a name of a vendor or a model so that spellings of one name are equal: in lower case, with one dash for what is
// neither an ASCII letter nor a digit, and none at the ends. It is empty where the name has neither.
func Slug(name string) string {
	words := strings.FieldsFunc(strings.Map(lowerASCII, name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return strings.Join(words, "-")
}

// lowerASCII leaves letters of other alphabets alone, of which some have an ASCII letter as their lower case.
func lowerASCII(r rune) rune {
	if r >= 'A' && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}

// Quantity is a number with the word for one, or for many.
func Quantity(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Some lists the first few names and says how many more there are.
func Some(names []string, few int) string {
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// Printable puts a replacement character in the place of every character that a terminal may act on: what is neither printable nor a line break.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' {
			return r
		}
		if unicode.IsSpace(r) {
			return ' '
		}
		return unicode.ReplacementChar
	}, s)
}
