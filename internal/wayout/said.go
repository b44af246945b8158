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
			from = max(from, strings.LastIndex(before, end)+len(end)*min(1, strings.LastIndex(before, end)+1))
		}
		ways = append(ways, Way{strings.TrimSpace(before[from:]), message[at[2]:at[3]]})
		left.WriteString(before[:from])
		message = message[at[1]:]
	}
}

// verbs are the commands of this package as the verbs of kubectl firmware that do the same and leave who and why.
var verbs = []struct {
	command *regexp.Regexp
	verb    string
}{
	{regexp.MustCompile(`^kubectl patch nfw ([^ ]+) --type merge -p "{\\"spec\\":{\\"requests\\":{\\"(retry|release|scan)\\":[^{}]+}}}"$`), "$2 $1"},
	{regexp.MustCompile(`^kubectl patch rp ([^ ]+) --type merge -p (?:"{\\"spec\\":{\\"requests\\":{\\"resume\\":[^{}]+}}}"|'{"spec":{"state":"Active"}}')$`), "resume $1"},
	{regexp.MustCompile(`^kubectl patch fwq ([^ ]+) --type merge -p '{"spec":{"state":"Lifted"}}'$`), "quarantine lift $1"},
	{regexp.MustCompile(`^kubectl patch fwj ([^ ]+) --type merge -p '{"spec":{"cancel":{"mode":"Force"}}}'$`), "cancel $1 --force"},
}

// Verb is a command as a verb of kubectl firmware does it, and the command itself where none does. Several commands that follow each other
// are translated one by one.
func Verb(command string) string {
	parts := strings.Split(command, " && ")
	for i, part := range parts {
		for _, v := range verbs {
			if v.command.MatchString(part) {
				parts[i] = "kubectl firmware " + v.command.ReplaceAllString(part, v.verb)
				break
			}
		}
	}
	return strings.Join(parts, " && ")
}
