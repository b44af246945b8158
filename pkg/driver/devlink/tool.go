package devlink

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/owntool"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Exit codes of firmware-devlink.
const (
	exitOK     = 0
	exitFailed = 1
	// exitUsage: the arguments are wrong; nothing was requested from the kernel.
	exitUsage = 2
	// exitNotFound: the kernel did not find the image; nothing was written.
	exitNotFound = 3
	// exitRejected: the kernel driver or the device rejected the image or the value.
	exitRejected = 4
	// exitUnsupported: the kernel driver or the device does not support this; stored firmware is activated by a reboot.
	exitUnsupported = 5
	// exitBusy: the device is busy, or its stored firmware has to be activated first.
	exitBusy = 6
	// exitChanged: the image is not the one that was verified; nothing was written.
	exitChanged = 7
)

// SearchPathFile is the kernel's parameter with the directory in which it looks for firmware first.
const SearchPathFile = "/sys/module/firmware_class/parameters/path"

// Main is the tool firmware-devlink, on the kernel it runs on.
func Main(_ context.Context, args []string, stdout, stderr io.Writer) int {
	return Program{Dial: Dial, SearchPath: SearchPathFile}.Run(args, stdout, stderr)
}

// Program is the tool firmware-devlink:
//
//	firmware-devlink flash HANDLE --file PATH [--digest sha256:HEX] [--component NAME]
//	firmware-devlink activate HANDLE
//	firmware-devlink set HANDLE NAME/MODE VALUE
//	firmware-devlink reinit HANDLE
//
// The kernel finishes a request whatever happens to the process, so the program ignores signals.
type Program struct {
	Dial       Dialer
	SearchPath string
}

// Run returns the exit code.
func (p Program) Run(args []string, stdout, stderr io.Writer) int {
	defer owntool.IgnoreSignals()()
	say := func(w io.Writer, format string, values ...any) { _, _ = fmt.Fprintf(w, format+"\n", values...) }
	do, err := p.parse(args, func(format string, values ...any) { say(stdout, format, values...) })
	if err != nil {
		say(stderr, "%v", err)
		return exitUsage
	}
	if err := do(); err != nil {
		say(stderr, "%s", strings.Join(strings.Fields(err.Error()), " "))
		return exitCode(err)
	}
	return exitOK
}

// parse returns the action that the arguments request.
func (p Program) parse(args []string, say func(string, ...any)) (func() error, error) {
	arguments, known := map[string]int{"flash": 0, "activate": 0, "set": 2, "reinit": 0}[append(args, "")[0]]
	if !known || len(args) < 2+arguments {
		return nil, errors.New("use: firmware-devlink flash HANDLE --file PATH [--digest sha256:HEX] [--component NAME] | activate HANDLE | " +
			"set HANDLE NAME/MODE VALUE | reinit HANDLE")
	}
	h, err := ParseHandle(args[1])
	if err != nil {
		return nil, err
	}
	if args[0] == "set" && len(args) == 2+arguments { // a value may begin with a dash
		return func() error { return p.set(h, args[2], args[3], say) }, nil
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var i image
	var digest string
	if args[0] == "flash" {
		flags.StringVar(&i.path, "file", "", "")
		flags.StringVar(&digest, "digest", "", "")
		flags.StringVar(&i.component, "component", "", "")
	}
	switch err := flags.Parse(args[2:]); {
	case err != nil:
		return nil, err
	case flags.NArg() > 0:
		return nil, fmt.Errorf("%s takes no argument %q", args[0], flags.Arg(0))
	case args[0] == "activate":
		return func() error { return p.reload(h, reloadFirmwareActivate, "activated firmware of", say) }, nil
	case args[0] == "reinit":
		return func() error { return p.reload(h, reloadDriverReinit, "reloaded the driver of", say) }, nil
	case i.path == "":
		return nil, errors.New("flash: name the image with --file")
	case digest != "":
		d, err := inventory.ParseDigest(digest)
		if err != nil {
			return nil, err
		}
		i.digest = &d
	}
	return func() error { return p.flash(h, i, say) }, nil
}

// errNeedsReboot says that the device cannot be reset while the machine runs.
var errNeedsReboot = errors.New("the firmware is activated by a reboot")

// refusesReset reports whether the kernel driver, or by its report another host of the card, refuses an activation. A kernel
// without a word may have failed in the middle of one.
func refusesReset(err error) bool {
	refused, ok := errors.AsType[*KernelError](err)
	wordless := []syscall.Errno{syscall.EOPNOTSUPP, syscall.EBUSY, syscall.ECANCELED}
	return ok && refused.Errno != syscall.ENODEV && (refused.Message != "" || slices.Contains(wordless, refused.Errno))
}

func (p Program) reload(h Handle, action uint8, done string, say func(string, ...any)) error {
	err := p.Dial.reload(h, action)
	if action == reloadFirmwareActivate && refusesReset(err) {
		err = fmt.Errorf("%w: %w", errNeedsReboot, err)
	}
	if err != nil {
		return fmt.Errorf("reload %s: %w", h, err)
	}
	say("%s %s", done, h)
	return nil
}

func (p Program) set(h Handle, key, value string, say func(string, ...any)) error {
	if err := p.Dial.setParam(h, key, value); err != nil {
		return err
	}
	say("set %s of %s to %s", key, h, value)
	return nil
}

// image is what a flash writes.
type image struct {
	path string
	// digest is what the file has to have; nil for any.
	digest *inventory.Digest
	// component is the part of the adapter that it is for; empty for all.
	component string
}

func (p Program) flash(h Handle, i image, say func(string, ...any)) error {
	path, err := filepath.EvalSymlinks(i.path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return fmt.Errorf("flash %s: open image: %w", h, err)
	}
	err = searchPath{file: p.SearchPath, say: say}.offer(path, func(name string) error {
		return unchanged(filepath.Join(filepath.Dir(path), name), i.digest, func() error { return p.Dial.flash(h, name, i.component, reportTo(say)) })
	})
	if isNotFound(err) {
		return fmt.Errorf("flash %s: %w: check that %s has the same path on the host as here, outside of any container, "+
			"and that nothing (LoadPin, SELinux, lockdown) prevents the kernel from reading it", h, err, filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("flash %s: %w", h, err)
	}
	say("flashed %s", h)
	return nil
}

// reportTo prints the kernel's reports without repetitions.
func reportTo(say func(string, ...any)) func(status) {
	last := ""
	return func(s status) {
		line := strings.Join(strings.Fields(s.Message+" "+s.Component), " ")
		if s.Total > 0 {
			line = fmt.Sprintf("%d%% %s", percentOf(s.Done, s.Total), line)
		}
		if s.Timeout > 0 {
			line += fmt.Sprintf(" (may take %d seconds)", s.Timeout)
		}
		if line != last && line != "" {
			say("%s", line)
		}
		last = line
	}
}

// percentOf returns the percentage without overflow.
func percentOf(done, total uint64) int {
	return int(100 * (float64(min(done, total)) / float64(total)))
}

// isNotFound reports whether the kernel did not find the image.
func isNotFound(err error) bool {
	refused, ok := errors.AsType[*KernelError](err)
	return ok && (strings.Contains(refused.Message, "failed to locate the requested firmware file") ||
		refused.Errno == syscall.ENOENT && refused.Message == "")
}

// exitCode classifies an error. Only an error with a message is about the image: an error number alone is ambiguous, except for
// ENOPKG, which only bnxt_en uses.
func exitCode(err error) int {
	refused, ok := errors.AsType[*KernelError](err)
	aboutImages := []syscall.Errno{
		syscall.EINVAL, syscall.ENOENT, syscall.EBADMSG, syscall.ENOEXEC, syscall.ENOKEY, syscall.EACCES, syscall.EKEYREVOKED,
		syscall.EKEYREJECTED, syscall.EPERM, syscall.ECANCELED,
	}
	switch {
	case errors.Is(err, errChanged):
		return exitChanged
	case errors.Is(err, errBadParam):
		return exitRejected
	case !ok:
		return exitFailed
	case isNotFound(err):
		return exitNotFound
	case refused.Errno == syscall.EOPNOTSUPP, errors.Is(err, errNeedsReboot):
		return exitUnsupported
	case refused.Errno == syscall.EBUSY:
		return exitBusy
	case refused.Errno == syscall.ENOPKG, refused.Message != "" && slices.Contains(aboutImages, refused.Errno):
		return exitRejected
	}
	return exitFailed
}

// Tool is the name of the tool of this package.
const Tool = "firmware-devlink"

func flashCommand(h Handle, img driver.Image, lock string, progress driver.Progress) command.Command {
	return command.Command{
		Argv:     []string{Tool, "flash", h.String(), "--file", img.Path, "--digest", img.Digest.String()},
		Kind:     command.Write,
		Lock:     lock,
		Progress: progress.Lines(percentage),
	}
}

func activateCommand(h Handle, lock string) command.Command {
	return command.Command{Argv: []string{Tool, "activate", h.String()}, Kind: command.Write, Lock: lock}
}

func setCommand(h Handle, s inventory.Setting, lock string) command.Command {
	return command.Command{Argv: []string{Tool, "set", h.String(), s.Name, s.Value}, Kind: command.Write, Lock: lock}
}

func reinitCommand(h Handle, lock string) command.Command {
	return command.Command{Argv: []string{Tool, "reinit", h.String()}, Kind: command.Write, Lock: lock}
}

var percentage = regexp.MustCompile(`^(\d{1,3})% `)

// classify turns the exit code of a flash into an error.
func (a adapters) classify(c command.Command, r command.Result) error {
	switch {
	case r.ExitCode == exitOK:
		return nil
	case r.ExitCode == exitRejected, r.ExitCode == exitUnsupported && a.unsupportedIsImage:
		return driver.Rejectf("the kernel driver does not accept the image: %s", owntool.FirstLine(r.Stderr))
	case r.ExitCode == exitChanged:
		return command.Failed(c, r, command.ErrImage)
	case r.ExitCode == exitNotFound:
		return command.Failed(c, r, errors.New("the kernel did not find the image"))
	case r.ExitCode == exitUnsupported:
		return fmt.Errorf("%w: %w", command.Failed(c, r, errors.New("the kernel driver does not support it")), driver.ErrNotSupported)
	case r.ExitCode == exitBusy:
		return command.Failed(c, r, errors.New("the adapter is busy: try again"))
	}
	return command.Failed(c, r, errors.New("the flash failed"))
}

// queries are the reading requests of this process to the kernel. The kernel answers a request about a device that is
// being written only when the write has ended, and a request cannot be cancelled: its thread is blocked until then.
// Therefore there is at most one request per device at a time, and a caller waits for it no longer than its own
// context.
type queries struct {
	mu    sync.Mutex
	turns map[Handle]chan struct{}
}

func (q *queries) turn(h Handle) chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.turns == nil {
		q.turns = map[Handle]chan struct{}{}
	}
	if q.turns[h] == nil {
		q.turns[h] = make(chan struct{}, 1)
	}
	return q.turns[h]
}

// ask requests something of a device.
func ask[T any](ctx context.Context, q *queries, h Handle, what string, request func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	late := func(why string) error {
		return fmt.Errorf("ask for %s of %s: %w: %s", what, h, context.Cause(ctx), why)
	}
	turn := q.turn(h)
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return none, late("the kernel has not answered an earlier query yet; the device is being written or reloaded, or hangs")
	}
	answered := make(chan answer, 1)
	go func() {
		defer func() { <-turn }()
		value, err := request()
		answered <- answer{value, err}
	}()
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
		return none, late("the kernel does not answer while it writes or reloads the device; read it again afterwards")
	}
}
