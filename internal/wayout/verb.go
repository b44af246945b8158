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
	{"nfw", `"service":"InService"`, "in-service %s"},
	{"nfw", `"retry":`, "retry %s"},
	{"nfw", `"release":`, "release %s"},
	{"nfw", `"scan":`, "scan %s"},
	{"rp", `"resume":`, "resume %s"},
	{"rp", `"state":"Active"`, "resume %s"},
	{"rp", `"state":"Paused"`, "pause %s"},
	{"fwt", `"state":"Active"`, "resume template/%s"},
	{"fwt", `"state":"Paused"`, "pause template/%s"},
	{"fwq", `"state":"Active"`, ""}, // before it is lifted once more
	{"fwq", `"state":"Lifted"`, "quarantine lift %s"},
	{"fwq", `"state":"Confirmed"`, "quarantine confirm %s"},
	{"fwj", `"mode":"Force"`, "cancel %s --force"},
	{"fwj", `"cancel":`, "cancel %s"},
}

// Verb is the command of the plugin kubectl firmware that does the same, and checks first that it has an effect; empty where there is none.
func Verb(command string) string {
	var out []string
	for part := range strings.SplitSeq(command, " && ") {
		said := patched.FindStringSubmatch(part)
		if said == nil {
			return ""
		}
		verb, known := verbFor(said[1], strings.ReplaceAll(said[3], `\"`, `"`))
		if !known {
			return ""
		}
		if verb != "" {
			out = append(out, fmt.Sprintf("kubectl firmware "+verb, said[2]))
		}
	}
	return strings.Join(out, " && ")
}

// verbFor is the verb for a change of an object; empty where that is a part of the next one.
func verbFor(kind, change string) (verb string, known bool) {
	for _, v := range verbs {
		if v.kind == kind && strings.Contains(change, v.change) {
			return v.verb, true
		}
	}
	return "", false
}

// called is where a command calls kubectl or the plugin. kubectl takes no flags before the name of a plugin.
var called = regexp.MustCompile(`(?:^| && )kubectl(?: firmware)?`)

// At has a command go where the flags lead, which are as a shell takes them.
func At(flags, command string) string {
	if flags == "" {
		return command
	}
	return called.ReplaceAllStringFunc(command, func(call string) string { return call + " " + flags })
}
