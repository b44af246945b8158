package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

// Checks runs the health checks that the owner of the host provides as executables: those in
// /etc/node-firmware/check/required.d decide, those in wanted.d only advise. Its fields must not be changed once it is
// in use. It is safe for concurrent use.
type Checks struct {
	// FS is the host's file system, where the executables are listed.
	FS     fs.FS
	Runner command.Runner
	// Launch is the beginning of an executable's command line: Namespaced or Direct.
	Launch []string
	// Timeout bounds each executable; zero for one minute.
	Timeout time.Duration
	// Rest is the pause after a round that did not pass; zero for 30 s. It should be much shorter than the time the
	// host has to become healthy.
	Rest time.Duration
	// Advise is called when an executable of wanted.d begins to fail and when it passes again; it may be nil. It must
	// not block.
	Advise func(Advice)

	mu sync.Mutex
	// last is the last round that did not pass, nil when there was none.
	last *round
	// advised holds the executables of wanted.d that failed in their last run.
	advised map[string]bool
}

// Advice is the result of an executable of wanted.d. No decision depends on it.
type Advice struct {
	// Failing is false when the executable passes again.
	Failing bool
	Message string
}

type round struct {
	targets    []Target
	ended      time.Time
	complaints []Complaint
	err        error
}

const (
	defaultCheckTimeout = time.Minute
	defaultRest         = 30 * time.Second
)

// Namespaced launches an executable of the host from a container that shares the host's process ids.
func Namespaced() []string {
	return []string{"nsenter", "--target", "1", "--mount", "--uts", "--ipc", "--net", "--pid", "--"}
}

// Direct launches an executable from a program that runs on the host itself. Tools are looked up only by their plain
// names, and env is the tool that accepts a path.
func Direct() []string { return []string{"env"} }

// Launch returns Direct for a program that has the host's file system as its own, and Namespaced for all others.
func Launch(hostRoot string) []string {
	if path.Clean(hostRoot) == "/" {
		return Direct()
	}
	return Namespaced()
}

// check runs the deciding executables and, when all of them pass, the advisory ones. A round that did not pass is
// repeated only after Rest, so that the checks do not keep a slow host busy; one that passed is always repeated.
func (c *Checks) check(ctx context.Context, targets []Target) ([]Complaint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.last; l != nil && slices.Equal(l.targets, targets) && time.Since(l.ended) < cmp.Or(c.Rest, defaultRest) {
		return l.complaints, l.err
	}
	complaints, err := c.decide(ctx)
	c.last = nil
	switch {
	case ctx.Err() != nil:
		return nil, errors.Join(err, ctx.Err())
	case err != nil || len(complaints) > 0:
		c.last = &round{targets: slices.Clone(targets), ended: time.Now(), complaints: complaints, err: err}
	default:
		c.advise(ctx)
	}
	return complaints, err
}

// before runs the deciding executables, whatever their last result.
func (c *Checks) before(ctx context.Context) ([]Complaint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.decide(ctx)
}

// decide runs the executables of required.d, one after the other.
func (c *Checks) decide(ctx context.Context) ([]Complaint, error) {
	names, complaints, err := list(c.FS, requiredDir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		message, err := c.run(ctx, requiredDir, name)
		if err != nil {
			return nil, err
		}
		if message != "" {
			complaints = append(complaints, Complaint{Message: message})
		}
	}
	return complaints, nil
}

// advise runs the executables of wanted.d and reports when one begins to fail and when it passes again. No decision
// depends on them.
func (c *Checks) advise(ctx context.Context) {
	names, refused, err := list(c.FS, wantedDir)
	failing := map[string]string{}
	switch {
	case err != nil:
		failing[label(wantedDir, "")] = err.Error()
	case len(refused) > 0:
		var messages []string
		for _, r := range refused {
			messages = append(messages, r.Message)
		}
		failing[label(wantedDir, "")] = strings.Join(messages, "; ")
	}
	for _, name := range names {
		message, err := c.run(ctx, wantedDir, name)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			message = err.Error()
		}
		if message != "" {
			failing[label(wantedDir, name)] = message
		}
	}
	c.emitTransitions(failing)
}

// emitTransitions calls Advise for the executables that began to fail or pass again.
func (c *Checks) emitTransitions(failing map[string]string) {
	emit := func(a Advice) {
		if c.Advise != nil {
			c.Advise(a)
		}
	}
	now := map[string]bool{}
	for _, name := range sorted(failing) {
		if now[name] = true; !c.advised[name] {
			emit(Advice{Failing: true, Message: failing[name] + "; the check is advisory and nothing is done about it"})
		}
	}
	for _, name := range sorted(c.advised) {
		if !now[name] {
			emit(Advice{Message: name + " passes again"})
		}
	}
	c.advised = now
}

// run says why an executable does not pass, or "" when it does. A timeout, too much output or a signal is not a pass.
// An error means that it could not be run.
func (c *Checks) run(ctx context.Context, dir, name string) (string, error) {
	timeout := cmp.Or(c.Timeout, defaultCheckTimeout)
	argv := append(slices.Clone(c.Launch), "/"+dir+"/"+name)
	result, err := c.Runner.Run(ctx, command.Command{Argv: argv, Kind: command.Query, Timeout: timeout})
	var failed *command.Error
	switch {
	case err == nil && result.ExitCode == 0:
		return "", nil
	case err == nil:
		return fmt.Sprintf("%s failed (exit code %d)%s", label(dir, name), result.ExitCode, lastLine(result.Stderr, result.Stdout)), nil
	case ctx.Err() != nil, errors.Is(err, command.ErrNotFound):
		return "", fmt.Errorf("run %s: %w", label(dir, name), err)
	case errors.Is(err, command.ErrTimeout):
		return fmt.Sprintf("%s did not end within %s", label(dir, name), timeout), nil
	case errors.As(err, &failed):
		return fmt.Sprintf("%s failed (%v)%s", label(dir, name), failed.Err, lastLine([]byte(failed.Stderr))), nil
	}
	return fmt.Sprintf("%s failed (%v)", label(dir, name), err), nil
}
