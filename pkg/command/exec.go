package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Config says where an ExecRunner finds tools, where it keeps the traces of writes, and what it allows.
type Config struct {
	// Path lists the directories tools are looked up in, in order; absolute, at least one.
	Path []string
	// Own maps names to tools that this program provides itself: its absolute path and the arguments that precede those of the command.
	// They take precedence over Path. Drivers that talk to the kernel directly write through such a tool, so that the write outlives this
	// process.
	Own map[string][]string
	// Refused are tools that are not run, by name, each with the reason and what a person can do about it. Drivers treat them as missing;
	// the error wraps ErrRefused.
	Refused map[string]error
	// StateDir is the absolute directory under which "run/" holds the locks and outputs of writes. It must survive
	// this process, and be the same for every process of the machine: only then do two processes that write to one device see each other's
	// lock. It is created at the first Write; without it every Write is refused.
	StateDir string
	// MaxOutput bounds standard output and standard error, each, in bytes. Default 4 MiB.
	MaxOutput int64
	// MaxInMemory is the size, in bytes, up to which an Image is copied to memory; see Command.Image. Default 64 MiB: larger than adapter,
	// drive and BIOS images, and a small part of what a daemon may use.
	MaxInMemory int64
	// Worker is the command line of a program that calls RunWorker, its path first. Writes are run through it. When empty,
	// the tool is a child of this process, and dies with its container.
	Worker []string
	// Scope protects workers from the end of this process' container; nil if nothing can.
	Scope Scoper
	// Inhibit is a command that keeps the host from shutting down for as long as it runs, and copies its input to its
	// output; empty for none. A worker runs it for as long as its tool lives.
	Inhibit []string
	// BootID reads the boot id; nil for the running kernel's.
	BootID func() (string, error)
	// Log gets a message for each write that is not protected; nil for none.
	Log *slog.Logger
	// QueryTimeout and WriteTimeout apply to commands without a timeout of their own. Default one minute and half
	// an hour.
	QueryTimeout, WriteTimeout time.Duration
}

// Scoper moves processes out of the container they run in.
type Scoper interface {
	// Scope returns once the process, and with it everything that it will start, no longer ends with this container. Name
	// is for people; it is unique within this boot.
	Scope(ctx context.Context, pid int, name string) error
}

// ExecRunner runs tools as processes of this machine. It is safe for concurrent use.
type ExecRunner struct {
	cfg Config
	env []string
}

// NewExecRunner checks the configuration and fills in its defaults. It touches no file.
func NewExecRunner(cfg Config) (*ExecRunner, error) {
	if len(cfg.Path) == 0 {
		return nil, errors.New("configure commands: the tool path is empty; name at least one directory")
	}
	for _, dir := range cfg.Path {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("configure commands: tool directory %q is not absolute", dir)
		}
	}
	for name, argv := range cfg.Own {
		if len(argv) == 0 || !filepath.IsAbs(argv[0]) {
			return nil, fmt.Errorf("configure commands: own tool %q is not an absolute path: %q", name, argv)
		}
	}
	if cfg.StateDir != "" && !filepath.IsAbs(cfg.StateDir) {
		return nil, fmt.Errorf("configure commands: state directory %q is not absolute", cfg.StateDir)
	}
	if cfg.MaxOutput < 0 || cfg.MaxInMemory < 0 || cfg.QueryTimeout < 0 || cfg.WriteTimeout < 0 {
		return nil, errors.New("configure commands: bounds and timeouts must not be negative")
	}
	if len(cfg.Worker) > 0 && !filepath.IsAbs(cfg.Worker[0]) {
		return nil, fmt.Errorf("configure commands: worker %q is not an absolute path", cfg.Worker[0])
	}
	cfg.Path = slices.Clone(cfg.Path)
	if cfg.BootID == nil {
		cfg.BootID = kernelBootID
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.MaxOutput = orDefault(cfg.MaxOutput, 4<<20)
	cfg.MaxInMemory = orDefault(cfg.MaxInMemory, MaxInMemory)
	cfg.QueryTimeout = orDefault(cfg.QueryTimeout, time.Minute)
	cfg.WriteTimeout = orDefault(cfg.WriteTimeout, 30*time.Minute)
	// HOME and LC_ALL keep tools from reading settings of a user and from translating what we parse.
	env := []string{"PATH=" + strings.Join(cfg.Path, ":"), "LC_ALL=C", "HOME=/"}
	return &ExecRunner{cfg: cfg, env: env}, nil
}

func orDefault[T int64 | time.Duration](v, byDefault T) T {
	if v == 0 {
		return byDefault
	}
	return v
}

// Run implements Runner. A Query that printed more than the bound is killed and fails with ErrOutput; a Write that printed
// too much still has its outcome: its Result holds the last bytes of the output.
func (r *ExecRunner) Run(ctx context.Context, c Command) (Result, error) {
	if len(c.Argv) == 0 {
		return Result{}, failedToRun(c, errors.New("no command given"))
	}
	tool, err := r.find(c.Argv[0])
	if err != nil {
		return Result{}, failedToRun(c, err)
	}
	if err := ctx.Err(); err != nil {
		return Result{}, failedToRun(c, err)
	}
	if c.Kind == Write {
		return r.write(ctx, tool, c)
	}
	return r.query(ctx, tool, c)
}

// find resolves the tool's name, to its path and the arguments that come first. Names with a slash are refused: a driver
// must not decide from where a privileged process runs its tools.
func (r *ExecRunner) find(name string) ([]string, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return nil, fmt.Errorf("tool name %q is not a plain file name", name)
	}
	if argv, ok := r.cfg.Own[name]; ok {
		return argv, nil
	}
	if why := r.cfg.Refused[name]; why != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, why)
	}
	for _, dir := range r.cfg.Path {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return []string{path}, nil
		}
	}
	return nil, fmt.Errorf("%w: install %s in one of %s", ErrNotFound, name, strings.Join(r.cfg.Path, ":"))
}

// argvOf is the command line of a tool that find resolved.
func argvOf(tool []string, c []string) []string { return slices.Concat(tool, c[1:]) }

// prepare sets what all tools have in common, and the variables of the command. Standard input stays nil, which is /dev/null.
func (r *ExecRunner) prepare(cmd *exec.Cmd, c Command) {
	cmd.Env = slices.Concat(r.env, c.Env)
	cmd.Dir = "/"
}

func failedToRun(c Command, err error) *Error {
	return &Error{Argv: c.Argv, ExitCode: -1, Err: err}
}

// outcome classifies how a tool ended by itself: exit codes are results, signals are errors.
func outcome(c Command, state *os.ProcessState, result Result) (Result, error) {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		result.ExitCode = -1
		return Result{}, Failed(c, result, fmt.Errorf("ended by signal %v", status.Signal()))
	}
	result.ExitCode = state.ExitCode()
	return result, nil
}

// Unusable reports whether an error says that a tool does not work on this machine at all: it is missing, is refused, or cannot be
// executed. Nothing was run then, and a driver can do without the tool where it has another way.
func Unusable(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrRefused) || errors.Is(err, ErrCannotRun)
}

// Installed returns, for each tool, an *Error that wraps ErrNotFound when the runner knows that it has no such tool, and one that wraps
// ErrRefused when it would not run it. It runs nothing.
func Installed(r Runner, tools ...string) error {
	var errs []error
	if finder, ok := r.(interface{ Installed(tool string) error }); ok {
		for _, tool := range tools {
			errs = append(errs, finder.Installed(tool))
		}
	}
	return errors.Join(errs...)
}

// Installed looks the tool up as Run does.
func (r *ExecRunner) Installed(tool string) error {
	if _, err := r.find(tool); err != nil {
		return failedToRun(Command{Argv: []string{tool}}, err)
	}
	return nil
}

// Process is one process of this boot. Process ids are reused; the pair of id and start time is not.
type Process struct {
	PID int
	// Start is when the process began, in clock ticks since the boot: field 22 of /proc/PID/stat.
	Start uint64
}

// Alive reports whether the process still runs.
func (p Process) Alive() bool {
	start, state, err := readStat(p.PID)
	return err == nil && start == p.Start && state != 'Z' && state != 'X'
}

// processOf looks up when a process began. A process that is gone by then has no start time and is never found alive.
func processOf(pid int) Process {
	start, _, err := readStat(pid)
	if err != nil {
		return Process{PID: pid}
	}
	return Process{PID: pid, Start: start}
}

func readStat(pid int) (start uint64, state byte, err error) {
	if pid <= 0 {
		return 0, 0, os.ErrNotExist
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The name of the program, field 2, is in parentheses and may contain anything; field 3 is the first one behind it.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	const stateField, startField = 0, 22 - 3
	if len(fields) <= startField {
		return 0, 0, fmt.Errorf("read /proc/%d/stat: it has %d fields after the name", pid, len(fields))
	}
	start, err = strconv.ParseUint(string(fields[startField]), 10, 64)
	return start, fields[stateField][0], err
}
