package text

import "strings"

// gap marks where something was cut out.
const gap = " ... "

// Clip returns s as valid UTF-8 of at most limit bytes: what is not UTF-8 becomes question marks. A longer text loses its
// middle, where " ... " stands then: a failed command is named at the beginning, and what it said stands at the end. A limit
// too small for that keeps the beginning alone. No character is cut in two.
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
