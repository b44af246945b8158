package wayout

import (
	"fmt"
	"regexp"
	"strings"
)

// patched is the object that a command of this package changes: its kind, its name, and what is changed.
var patched = regexp.MustCompile(`^kubectl patch (nfw|rp|fwt|fwq|fwj) (\S+) --type merge -p (.+)$`)

// verbs of kubectl firmware, by the kind and what is changed.
var verbs = []struct{ kind, change, verb string }{
	{"nfw", `"retry":`, "retry %s"},
	{"nfw", `"release":`, "release %s"},
	{"nfw", `"scan":`, "scan %s"},
	{"rp", `"resume":`, "resume %s"},
	{"rp", `"state":"Active"`, "resume %s"},
	{"rp", `"state":"Paused"`, "pause %s"},
	{"fwt", `"state":"Active"`, "resume template/%s"},
	{"fwt", `"state":"Paused"`, "pause template/%s"},
	{"fwq", `"state":"Lifted"`, "quarantine lift %s"}, // before Active: of two commands, the second one is what is meant
	{"fwq", `"state":"Confirmed"`, "quarantine confirm %s"},
	{"fwj", `"mode":"Force"`, "cancel %s --force"},
	{"fwj", `"cancel":`, "cancel %s"},
}

// Verb is the command of the plugin kubectl firmware that does the same, and checks first that it has an effect; empty where there is none.
func Verb(command string) string {
	said := patched.FindStringSubmatch(command)
	if said == nil {
		return ""
	}
	change := strings.ReplaceAll(said[3], `\"`, `"`)
	for _, v := range verbs {
		if v.kind == said[1] && strings.Contains(change, v.change) {
			return fmt.Sprintf("kubectl firmware "+v.verb, said[2])
		}
	}
	return ""
}
