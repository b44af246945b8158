// Package survey asks the tools of a machine for their versions.
package survey

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool"
)

// queryTimeout bounds the question for a version. Tools answer within a second where the machine is idle.
const queryTimeout = 30 * time.Second

// atOnce bounds how many tools are asked at the same time.
const atOnce = 4

// Run looks at the named tools and asks those of the table for their versions. The findings have the order of the names. Tools
// outside the table are only looked for. It reaches no device.
func Run(ctx context.Context, runner command.Runner, names []string) []vendortool.Finding {
	out := make([]vendortool.Finding, len(names))
	turns := make(chan struct{}, atOnce)
	var group sync.WaitGroup
	for i, name := range names {
		turns <- struct{}{}
		group.Go(func() {
			defer func() { <-turns }()
			out[i] = ask(ctx, runner, name)
			out[i].Message = text.Clip(out[i].Message, maxMessage)
		})
	}
	group.Wait()
	return out
}

const maxMessage = 300

func ask(ctx context.Context, runner command.Runner, name string) vendortool.Finding {
	found := vendortool.Finding{Tool: name, Support: vendortool.Tested}
	tool, known := vendortool.Named(name)
	if err := command.Installed(runner, name); err != nil {
		found.Support, found.Message = vendortool.Missing, fmt.Sprintf("it is not installed where the daemon looks for tools; %s", tool.Remedy())
		return found
	}
	if !known || tool.VersionArgs == nil {
		return found
	}
	c := command.Command{Argv: append([]string{name}, tool.VersionArgs...), Timeout: queryTimeout}
	r, err := runner.Run(ctx, c)
	switch {
	case errors.Is(err, command.ErrCannotRun):
		found.Support, found.Message = vendortool.CannotRun, fmt.Sprintf("it cannot be executed here: %s", cause(err))
		return found
	case err != nil:
		found.Support, found.Message = vendortool.Unknown, fmt.Sprintf("its version could not be read: %s", cause(err))
		return found
	case r.ExitCode == exitNotExecutable || r.ExitCode == exitNotFound:
		found.Support = vendortool.CannotRun
		found.Message = fmt.Sprintf("it cannot be executed here, because something that it needs is missing: %s; %s", firstLine(r), tool.Remedy())
		return found
	}
	m := tool.VersionText.FindSubmatch(append(r.Stdout, r.Stderr...))
	if m == nil {
		found.Support = vendortool.Unknown
		found.Message = fmt.Sprintf("its version could not be read: %q says none (exit code %d): %s", c, r.ExitCode, firstLine(r))
		return found
	}
	found.Version = inventory.Version(m[1])
	found.Support, found.Message = tool.Judge(found.Version)
	return found
}

// The codes with which a shell and the loader of programs say that they cannot run one.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// cause is an error of a runner without its command line.
func cause(err error) string {
	if e, ok := errors.AsType[*command.Error](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

func firstLine(r command.Result) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(r.Stderr)+"\n"+string(r.Stdout)), "\n")
	if line == "" {
		return "it printed nothing"
	}
	return text.Clip(line, 120)
}
