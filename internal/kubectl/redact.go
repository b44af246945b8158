package kubectl

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// redacted is what stands in the place of what may be a secret.
const redacted = "REDACTED"

// What may be a secret is left out rather than what is one: who reads the bundle can ask for more, and nobody can take it back.
var (
	// secretName are names of what is secret, and notSecret the ends of names that only say where it is.
	secretName = regexp.MustCompile(`(?i)passw|passphrase|pwd|secret|token|api[-_.]?key|access[-_.]?key|private[-_.]?key|credential|authorization|cookie|bearer|^auths?$|passcode|passkey|psk|community|(^|[-_.])pass$`)
	notSecret  = regexp.MustCompile(`(?i)(ref|name|names|namespace|file|path|dir|hosts|kind|seconds)$`)

	privateKey = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----.*?-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----`)
	// beginOfKey and endOfKey are what is left of one that was cut.
	beginOfKey  = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----(?:(?:\\[nr]|[\r\n])+(?:\d\S*Z )?(?:(?:Proc-Type|DEK-Info):[^\r\n\\]*|[A-Za-z0-9+/=]+))*`)
	endOfKey    = regexp.MustCompile(`(?:[A-Za-z0-9+/=]+(?:\\[nr]|[\r\n])+(?:\d\S*Z )?)*-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----`)
	userInfo    = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)(?:[^/\s"']*|[^/\s"':@]+:\d*[^\d/\s"'@][^\s"'@]*)@`) // a password may have a slash; a port ends at one
	userAt      = regexp.MustCompile(`(^|[\s"'=])[^\s:/@"'=]+:[^\s@/"']+(@[\w.-]+)`)
	urlQuery    = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'?#]*[?#])[^\s"']+`)
	header      = regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(\\*["']?\s*[:=]\s*)[^\n]+`)
	credentials = regexp.MustCompile(`(?i)\b(bearer|basic|negotiate)\s+[A-Za-z0-9+/_.=~-]{8,}`)
	knownForm   = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?|\bLS0tLS1CRUdJTi[A-Za-z0-9+/=]*|\b(AKIA|ASIA)[A-Z0-9]{16}\b|\b(gh[a-z]_|github_pat_|glpat-|xox[a-z]-|sk-)[A-Za-z0-9_-]{16,}`)
	assigned    = regexp.MustCompile(`(?i)([\w.-]*(?:passw|passphrase|passcode|passkey|pwd|psk|secret|token|api[-_.]?key|access[-_.]?key|private[-_.]?key|credential|community|\bauths?\b|\bpass\b|_pass\b)[\w.-]*)(\\*["']?\s*[:=]\s*)([\[{|>][^\n]*|\\"(?:[^"\\]|\\\\(?:\\.|.))*\\"|"(?:[^"\\]|\\.)*"|'[^']*'|\S+)`)
	// told is how this product's own messages name a value.
	told     = regexp.MustCompile(`(?i)([\w.-]*(?:passw|passphrase|passcode|passkey|pwd|psk|secret|token|credential|community)[\w.-]*)( is )([^,;\n]*)`)
	flagged  = regexp.MustCompile(`(?i)(--?[\w-]*(?:passw|passphrase|secret|token|api[-_]?key|access[-_]?key|private[-_]?key|credential)[\w-]*|(?:^|\s)-[up]|--user)([\s=]+)("[^"]*"|'[^']*'|\S+)`)
	attached = regexp.MustCompile(`((?:^|\s)-u)[^\s=-]\S*`)
	// jsonLine is a line that is an object of JSON, such as one of a log, after the time that the kubelet noted.
	jsonLine = regexp.MustCompile(`^(\d\S*Z )?(\{.*\})\s*$`)
)

// isSecret reports whether what has that name may be a secret.
func isSecret(name string) bool { return secretName.MatchString(name) && !notSecret.MatchString(name) }

// redactText takes out of a text what may be a secret: private keys, who logs in by a URL and what follows its question mark, tokens by
// their form, and what is assigned to a name that says that it is one. Lines that are objects of JSON stay such.
func redactText(s string) string {
	s = privateKey.ReplaceAllString(s, redacted)
	s = endOfKey.ReplaceAllString(beginOfKey.ReplaceAllString(s, redacted), redacted)
	if !strings.Contains(s, "{") {
		return redactWords(s)
	}
	var out []string
	from := 0
	lines := strings.Split(s, "\n")
	words := func(to int) {
		if to > from {
			out = append(out, redactWords(strings.Join(lines[from:to], "\n")))
		}
		from = to + 1
	}
	for i, line := range lines {
		if redacted, is := redactObject(line); is {
			words(i)
			out = append(out, redacted)
		}
	}
	words(len(lines))
	return strings.Join(out, "\n")
}

// redactObject is redact for an object of JSON in a line.
func redactObject(line string) (string, bool) {
	parts := jsonLine.FindStringSubmatch(line)
	if parts == nil {
		return "", false
	}
	var o map[string]any
	in := json.NewDecoder(strings.NewReader(parts[2]))
	in.UseNumber()
	if err := in.Decode(&o); err != nil || in.More() {
		return "", false
	}
	redactMap("", o, false)
	text, err := json.Marshal(o)
	return parts[1] + string(text), err == nil
}

func redactWords(s string) string {
	s = header.ReplaceAllString(s, "${1}${2}"+redacted)
	s = userInfo.ReplaceAllString(s, "${1}"+redacted+"@")
	s = userAt.ReplaceAllString(s, "${1}"+redacted+"${2}")
	s = urlQuery.ReplaceAllString(s, "${1}"+redacted)
	s = credentials.ReplaceAllString(s, "${1} "+redacted)
	s = knownForm.ReplaceAllString(s, redacted)
	s = attached.ReplaceAllString(s, "${1}"+redacted)
	for _, form := range []*regexp.Regexp{assigned, told, flagged} {
		s = form.ReplaceAllStringFunc(s, func(found string) string {
			part := form.FindStringSubmatch(found)
			if notSecret.MatchString(part[1]) {
				return part[1] + part[2] + redactWords(part[3])
			}
			return part[1] + part[2] + redacted
		})
	}
	return s
}

// redact takes out of an object what may be a secret, in place: the values of environment variables and of headers, of annotations of others, of what has
// the name of a secret, and all that redactText does. What the API server notes of fields goes too, because nobody needs it.
func redact(o map[string]any) {
	if m, is := o["metadata"].(map[string]any); is {
		delete(m, "managedFields")
	}
	redactMap("", o, false)
}

// redactMap takes secrets out of what is under a key. Inside what has the name of a secret, all is one that does not say where it is.
func redactMap(key string, m map[string]any, inside bool) {
	name, _ := m["name"].(string)
	for k, v := range m {
		secret := isSecret(k) || inside && !notSecret.MatchString(k)
		switch k {
		case "value", "current", "next", "default", "pending", "was":
			secret = secret || key == "env" || key == "httpHeaders" || isSecret(name)
		}
		if key == "annotations" {
			secret = secret || !strings.Contains(k, v1alpha1.GroupName+"/")
		}
		m[k] = redactValue(k, v, secret)
	}
}

func redactValue(key string, v any, secret bool) any {
	switch v := v.(type) {
	case string:
		if secret && v != "" {
			return redacted
		}
		return redactText(v)
	case map[string]any:
		redactMap(key, v, secret)
	case []any:
		if key == "args" || key == "command" {
			redactArgs(v)
			return v
		}
		for i := range v {
			v[i] = redactValue(key, v[i], secret)
		}
	}
	return v
}

// redactArgs takes secrets out of a command line, also where the flag is one argument and its value the next.
func redactArgs(args []any) {
	value := false
	for i, a := range args {
		s, is := a.(string)
		if !is {
			continue
		}
		flag, _, both := strings.Cut(s, "=")
		secret := strings.HasPrefix(s, "-") && (isSecret(flag) || slices.Contains([]string{"-u", "-p", "-P", "--user"}, flag))
		switch {
		case value:
			args[i] = redacted
		case both && secret:
			args[i] = flag + "=" + redacted
		default:
			args[i] = redactText(s)
		}
		value = secret && !both
	}
}
