package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
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
			complaints = append(complaints, Complaint{Message: message, Subject: step.Subject{Kind: step.CheckSubject, Name: name}})
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

// The directories of the executables, below the host's root.
const (
	checkDir    = "etc/node-firmware/check"
	requiredDir = checkDir + "/required.d"
	wantedDir   = checkDir + "/wanted.d"
)

var (
	// named is the pattern of the names of executables that run.
	named = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.sh|\.py)?$`)
	// leftBehind is the pattern of names that package managers and editors leave beside a file.
	leftBehind = regexp.MustCompile(`^\.|~$|\.(rpmsave|rpmnew|rpmorig|dpkg-[a-z]+|swp|bak|orig)$`)
)

// list names the executables of a directory in order. As with run-parts these are regular files with an executable bit
// whose names consist of letters, digits, "_" and "-"; ".sh" or ".py" may follow. A file without an executable bit is
// disabled, and files that package managers and editors leave behind are skipped. Anything else that could be meant as
// a check, or that users other than root could have changed, is refused with a complaint that says what to do: a check
// that is skipped silently would count as passed. A missing directory has none.
func list(fsys fs.FS, dir string) (names []string, refused []Complaint, err error) {
	refuse := func(name, why string) {
		refused = append(refused, Complaint{
			Message: fmt.Sprintf("%s is not run: %s", label(dir, name), why), Subject: step.Subject{Kind: step.CheckSubject, Name: name},
		})
	}
	for _, d := range []string{path.Dir(checkDir), checkDir, dir} {
		info, err := fs.Lstat(fsys, d)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil, nil
		case err != nil:
			return nil, nil, fmt.Errorf("look for health checks: %w", err)
		case !info.IsDir():
			refuse("", fmt.Sprintf("/%s is not a directory; replace it with one", d))
			return nil, refused, nil
		}
		if why := untrusted(info, d); why != "" {
			refuse("", why)
			return nil, refused, nil
		}
	}
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list health checks: %w", err)
	}
	for _, e := range entries { // in order of name
		info, err := e.Info()
		if err != nil {
			return nil, nil, fmt.Errorf("list health checks: %w", err)
		}
		switch file := dir + "/" + e.Name(); {
		case leftBehind.MatchString(e.Name()), info.IsDir():
		case info.Mode()&fs.ModeSymlink != 0:
			refuse(e.Name(), "it is a symbolic link; put the file itself there")
		case !info.Mode().IsRegular(), info.Mode()&0o111 == 0:
		case !named.MatchString(e.Name()):
			refuse(e.Name(), "its name may have only letters, digits, _ and -, and the suffix .sh or .py; rename it, or remove its executable bit")
		default:
			if why := untrusted(info, file); why != "" {
				refuse(e.Name(), why)
				continue
			}
			names = append(names, e.Name())
		}
	}
	return names, refused, nil
}

// untrusted says why users other than root may have written a file or a directory, or "" when they cannot have.
func untrusted(info fs.FileInfo, name string) string {
	switch owner, ok := info.Sys().(*syscall.Stat_t); {
	case !ok:
		return fmt.Sprintf("the owner of /%s is not known", name)
	case owner.Uid != 0 && int(owner.Uid) != os.Geteuid():
		return fmt.Sprintf("/%s belongs to user %d; review it, then chown root /%s", name, owner.Uid, name)
	case info.Mode()&0o022 != 0:
		return fmt.Sprintf("/%s can be written by users other than root; review it, then chmod go-w /%s", name, name)
	}
	return ""
}

// label names an executable for people, or its directory when it has no name.
func label(dir, name string) string {
	return "check " + strings.TrimSuffix(path.Base(dir)+"/"+name, "/")
}

// maxLine bounds the quoted output of an executable in a message, in bytes.
const maxLine = 200

// lastLine is the last non-blank line of the first output that has one, with a colon before it.
func lastLine(outputs ...[]byte) string {
	for _, output := range outputs {
		lines := strings.Split(strings.TrimSpace(printable(string(output))), "\n")
		if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
			return ": " + text.Clip(last, maxLine)
		}
	}
	return ""
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
