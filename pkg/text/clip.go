package text

import "strings"

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
