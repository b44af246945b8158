package toolcontract

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Record is what a tool answered to a case. Its texts have placeholders.
type Record struct {
	Case
	Answer
	Class Class
}

// Run runs all cases of the tool.
func (t Tool) Run(ctx context.Context, w World, run Runner) ([]Record, error) {
	var records []Record
	for _, c := range t.Cases {
		if err := w.reset(); err != nil {
			return nil, err
		}
		argv := []string{t.Name}
		for _, a := range c.Args {
			argv = append(argv, w.expand(a))
		}
		a, err := run(ctx, argv, c.Env)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		a.Stdout, a.Stderr = w.hide(a.Stdout), w.hide(a.Stderr)
		records = append(records, Record{c, a, t.Classify(a)})
	}
	return records, w.reset()
}

// Complaints say where the answer is not the wanted one.
func (r Record) Complaints(on []Condition) []string {
	want := r.want(on)
	var out []string
	if r.Class != want.Class {
		out = append(out, fmt.Sprintf("its class is %s, want %s", r.Class, want.Class))
	}
	if r.Exit != want.Exit {
		out = append(out, fmt.Sprintf("it exits with %d, want %d", r.Exit, want.Exit))
	}
	if !strings.Contains(r.Stdout+r.Stderr, want.Text) {
		out = append(out, fmt.Sprintf("it does not print %q", want.Text))
	}
	return out
}

// maxLines bounds what a recording keeps of each stream of an answer: help texts are long.
const maxLines = 6

// Transcript is the text of a recording.
func Transcript(tool Tool, version string, on []Condition, records []Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s%s\n", tool.Name, version, suffix(on, " "))
	for _, r := range records {
		fmt.Fprintf(&b, "\n%s\nexit %d %s\n", commandLine(tool, r.Case), r.Exit, r.Class)
		quote(&b, "out: ", r.Stdout)
		quote(&b, "err: ", r.Stderr)
	}
	return b.String()
}

// commandLine is the line of a transcript that begins a case.
func commandLine(tool Tool, c Case) string {
	return strings.Join(slices.Concat([]string{"$"}, c.Env, []string{tool.Name}, c.Args), " ")
}

func quote(b *strings.Builder, prefix, text string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		switch {
		case text == "":
			return
		case i == maxLines:
			fmt.Fprintf(b, "%s…\n", prefix)
			return
		}
		fmt.Fprintf(b, "%s\n", strings.TrimRight(prefix+line, " \t\r"))
	}
}

// suffix names conditions, each after a separator.
func suffix(on []Condition, separator string) string {
	text := ""
	for _, c := range on {
		text += separator + string(c)
	}
	return text
}

// parseTranscript reads a recording back: the records by their command lines, and the conditions of the machine. It knows
// nothing of what was cut off.
func parseTranscript(tool Tool, text string) (map[string]Record, []Condition, error) {
	blocks := strings.Split(text, "\n\n")
	head := strings.Fields(blocks[0])
	if len(head) < 2 || head[0] != tool.Name {
		return nil, nil, fmt.Errorf("read recording: its first line is not about %s: %q", tool.Name, blocks[0])
	}
	var on []Condition
	for _, c := range head[2:] {
		on = append(on, Condition(c))
	}
	records := map[string]Record{}
	for _, block := range blocks[1:] {
		lines := strings.Split(strings.TrimSpace(block), "\n")
		var r Record
		if len(lines) < 2 {
			return nil, nil, fmt.Errorf("read recording: a case without an answer: %q", block)
		}
		if _, err := fmt.Sscanf(lines[1], "exit %d %s", &r.Exit, &r.Class); err != nil {
			return nil, nil, fmt.Errorf("read recording: %q: %w", lines[1], err)
		}
		for _, line := range lines[2:] {
			switch prefix, rest, _ := strings.Cut(line, ": "); strings.TrimSuffix(prefix, ":") {
			case "out":
				r.Stdout += rest + "\n"
			case "err":
				r.Stderr += rest + "\n"
			}
		}
		records[lines[0]] = r
	}
	return records, on, nil
}
