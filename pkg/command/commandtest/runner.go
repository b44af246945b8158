package commandtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

// Tool plays one tool. It may keep state between calls, and is called from as many goroutines as Run is.
type Tool func(ctx context.Context, c command.Command) (command.Result, error)

// Runner is a command.Runner whose tools are functions. Like the real one it refuses an empty command, a Write without
// a lock, a Write while another holds its lock, and an image that the command does not name. Its tools read the image by its path. A command whose tool was not given fails the test. It is safe for
// concurrent use.
type Runner struct {
	t     testing.TB
	tools map[string]Tool

	mu      sync.Mutex
	calls   []command.Command
	writing map[string]bool
}

// NewRunner makes a runner with the given tools, keyed by their base names.
func NewRunner(t testing.TB, tools map[string]Tool) *Runner {
	return &Runner{t: t, tools: tools, writing: map[string]bool{}}
}

// Run records the command and plays its tool. Lines of the tool's standard output are given to Progress at the end.
func (r *Runner) Run(ctx context.Context, c command.Command) (command.Result, error) {
	r.t.Helper()
	if len(c.Argv) == 0 {
		return command.Result{}, r.refuse(c, fmt.Errorf("no command"))
	}
	if c.Kind == command.Write && c.Lock == "" {
		return command.Result{}, r.refuse(c, fmt.Errorf("a write needs a lock"))
	}
	if err := c.CheckImage(); err != nil {
		return command.Result{}, r.refuse(c, err)
	}
	if err := ctx.Err(); err != nil {
		return command.Result{}, &command.Error{Argv: c.Argv, ExitCode: -1, Err: err}
	}
	tool, ok := r.tools[c.Argv[0]]
	if !ok {
		return command.Result{}, r.refuse(c, command.ErrNotFound)
	}
	if err := r.begin(c); err != nil {
		return command.Result{}, err
	}
	defer r.end(c)
	result, err := tool(ctx, c)
	if err != nil {
		return command.Result{}, err
	}
	if c.Progress != nil {
		for line := range strings.Lines(string(result.Stdout)) {
			c.Progress(strings.TrimRight(line, "\r\n"))
		}
	}
	return result, nil
}

func (r *Runner) refuse(c command.Command, err error) error {
	r.t.Helper()
	r.t.Errorf("unexpected command %q: %v", c.Argv, err)
	return &command.Error{Argv: c.Argv, ExitCode: -1, Err: err}
}

func (r *Runner) begin(c command.Command) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.Kind == command.Write {
		if r.writing[c.Lock] {
			return &command.Error{Argv: c.Argv, ExitCode: -1, Err: command.ErrBusy}
		}
		r.writing[c.Lock] = true
	}
	c.Argv = slices.Clone(c.Argv)
	r.calls = append(r.calls, c)
	return nil
}

func (r *Runner) end(c command.Command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.Kind == command.Write {
		delete(r.writing, c.Lock)
	}
}

// Calls are the commands that were run, in the order they started.
func (r *Runner) Calls() []command.Command {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// Lines are the command lines of Calls, and of one tool only where a name is given.
func (r *Runner) Lines(tools ...string) []string {
	lines := []string{}
	for _, c := range r.Calls() {
		if len(tools) == 0 || slices.Contains(tools, c.Argv[0]) {
			lines = append(lines, c.String())
		}
	}
	return lines
}

// Prints plays a tool that prints text on standard output and exits with 0.
func Prints(text string) Tool {
	return Exits(0, text, "")
}

// Exits plays a tool that prints on both outputs and exits with a code.
func Exits(code int, stdout, stderr string) Tool {
	return func(context.Context, command.Command) (command.Result, error) {
		return command.Result{ExitCode: code, Stdout: []byte(stdout), Stderr: []byte(stderr)}, nil
	}
}
