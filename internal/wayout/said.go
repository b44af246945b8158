package wayout

import (
	"regexp"
	"strings"
)

// Way is a command that a message of the product names, and what it is for.
type Way struct {
	// Purpose is the clause before the command, such as "To try again".
	Purpose string `json:"purpose"`
	Command string `json:"command"`
}

// A command follows a colon, and ends with the text, with its sentence, or with two spaces.
var named = regexp.MustCompile(`(?:^|: )(kubectl (?:[^ ]| [^ ])*?)(?:\.?  +|\. |\.?$)`)

// Ways takes the commands out of a message: said is what is left of it.
func Ways(message string) (said string, ways []Way) {
	var left strings.Builder
	for {
		at := named.FindStringSubmatchIndex(message)
		if at == nil {
			left.WriteString(message)
			return strings.TrimSpace(left.String()), ways
		}
		before := message[:at[0]]
		from := 0
		for _, end := range []string{". ", "  ", `' `, `" `} { // a command may be the end of a sentence
			if at := strings.LastIndex(before, end); at >= 0 {
				from = max(from, at+len(end))
			}
		}
		ways = append(ways, Way{strings.TrimSpace(before[from:]), message[at[2]:at[3]]})
		left.WriteString(before[:from])
		message = message[at[1]:]
	}
}
