package wayout

import (
	"cmp"
	"regexp"
	"strings"
)

// Way is a command that a message of the product names, and what it is for.
type Way struct {
	// Purpose is the clause before the command, such as "To try again".
	Purpose string `json:"purpose"`
	Command string `json:"command"`
	// Verb is the command of the plugin that does the same; empty where there is none.
	Verb string `json:"verb,omitempty"`
}

// Typed is what a person types: the verb, or else the command.
func (w Way) Typed() string { return cmp.Or(w.Verb, w.Command) }

// A command follows a colon, and ends with the text, with its sentence, or with two spaces.
var named = regexp.MustCompile(`(?:^|: )(kubectl (?:[^ ]| [^ ])*?)(?:\.?  +|\. |\.?$)`)

// Ways takes the commands of the product out of a message: said is what is left of it. What is no such command stays a part of what is said.
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
		command := message[at[2]:at[3]]
		if !isOurs(command) {
			rest := at[2] + len("kubectl ") // another one may follow in the same sentence
			left.WriteString(message[:rest])
			message = message[rest:]
			continue
		}
		ways = append(ways, Way{strings.TrimSpace(before[from:]), command, Verb(command)})
		left.WriteString(before[:from])
		message = message[at[1]:]
	}
}
