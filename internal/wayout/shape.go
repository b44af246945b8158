package wayout

import (
	"regexp"
	"slices"
	"strings"
)

// Words of a command as the product makes it: what a shell takes as it is, whatever object it is about.
const (
	ours = `(?:nfw|ndev|rp|fwt|fct|fws|fwq|fwc|fwj|clp)`
	name = `[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?`
	// word is no flag: one such as --server or --kubeconfig would take the credentials of whoever copies it elsewhere, or run a program.
	word   = `[A-Za-z0-9_./][A-Za-z0-9_./:=,-]*`
	flag   = `(?:-A|-o|-l|--field-selector|--show-labels)`
	fields = `[A-Za-z0-9_."/:{},+-]*`
)

// shapes are the commands that messages of the product name.
var shapes = func() (out []*regexp.Regexp) {
	for _, shape := range []string{
		`(?:get|describe|logs)(?: (?:` + flag + `|` + word + `))+`,
		`patch ` + ours + ` ` + name + ` --type merge -p '\{"spec":\{` + fields + `\}\}'`,
		`patch ` + ours + ` ` + name + ` --type merge -p "\{\\"spec\\":\{(?:\\"service\\":\\"InService\\",)?\\"requests\\":\{\\"[a-z]+\\":\\"\$\(date -u \+%FT%TZ\)\\"\}\}\}"`,
		`edit ` + ours + ` ` + name,
		`delete (?:nfw|fwj) ` + name,
		`uncordon ` + name,
		`annotate (?:node|fwj) ` + name + ` nodefirmware\.io/` + word,
		`edit configmap node-firmware-pod-handlers`,
		`delete pod(?: -A)? -l ` + regexp.QuoteMeta(pods) + `(?:daemon|operator)(?: --field-selector spec\.nodeName=` + name + `)?`,
		`firmware [a-z-]+(?: ` + word + `)*(?: --force)?`,
	} {
		out = append(out, regexp.MustCompile(`^kubectl (?:-n `+name+` )?`+shape+`$`))
	}
	return out
}()

// isOurs reports whether the product may have made a command: some of the messages are from nodes, which may have been taken over, and their
// commands must not run anything else in the shell of whoever copies them.
func isOurs(command string) bool {
	for part := range strings.SplitSeq(strings.ReplaceAll(command, "; ", " && "), " && ") {
		if !slices.ContainsFunc(shapes, func(shape *regexp.Regexp) bool { return shape.MatchString(part) }) {
			return false
		}
	}
	return true
}
