package text

import "strings"

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
