package nvmetool

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Name is the name by which drivers run the tool.
const Name = "firmware-nvme"

// The commands of the tool, its first argument.
const (
	// DownloadCommit transfers an image and stores it in a slot, to run after the next reset.
	DownloadCommit = "download-commit"
	// Commit makes the image that a slot holds the one to run, after the next reset or at once.
	Commit = "commit"
	// Reset resets the controller and waits until the drive answers.
	Reset = "reset"
	// Sanitize begins to erase all of the drive.
	Sanitize = "sanitize"
)

// Phases name the command whose answer a line "PHASE status 0x10b" prints. The last such line of the standard output is the
// outcome.
const (
	PhaseDownload = "download"
	PhaseCommit   = "commit"
	PhaseReset    = "reset"
	PhaseSanitize = "sanitize"
)

// Exit codes.
const (
	// ExitDone: the drive answered the last command with status 0.
	ExitDone = 0
	// ExitRefused: it answered with another status, which may be a success that needs a reset.
	ExitRefused = 1
	// ExitUsage: the arguments are wrong, or are not for this drive or this image. No command was sent that changes the drive.
	ExitUsage = 2
	// ExitFailed: the drive did not answer. The outcome of the last command is not known.
	ExitFailed = 3
	// ExitGone: the drive is gone. The outcome of the last command is not known.
	ExitGone = 4
)

// Main runs the tool on the drives of the running kernel. From the first command that changes the drive it ignores the
// context and signals: stopping between two pieces of an image is worse than a process that does not end.
func Main(_ context.Context, args []string, stdout, stderr io.Writer) int {
	ignoreSignals := func() { signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP) }
	return Tool{Open: admin.Open, Begins: ignoreSignals}.Run(args, stdout, stderr)
}

// Tool is the program and its dependencies.
type Tool struct {
	Open admin.Opener
	// Return is how long a drive may take to answer after a reset; default three minutes. Pause is the time between two
	// attempts to identify it, default a quarter of a second.
	Return, Pause time.Duration
	// Begins is called right before the first command that changes the drive; nil for nothing.
	Begins func()
}

// Run executes the command in the arguments and returns the exit code.
func (t Tool) Run(args []string, stdout, stderr io.Writer) int {
	t.Return = cmp.Or(t.Return, 3*time.Minute)
	t.Pause = cmp.Or(t.Pause, 250*time.Millisecond)
	code, err := t.run(args, stdout)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", Name, err)
	}
	return code
}

func (t Tool) run(args []string, stdout io.Writer) (int, error) {
	o, err := parse(args)
	if err != nil {
		return ExitUsage, err
	}
	controller, err := t.Open(o.device)
	if err != nil {
		return failure(err), err
	}
	defer controller.Close()
	if err := o.isFor(controller); err != nil {
		return failure(err), err
	}
	if t.Begins != nil {
		t.Begins()
	}
	s := session{tool: t, options: o, controller: controller, stdout: stdout}
	status, err := map[string]func() (admin.Status, error){
		DownloadCommit: s.downloadCommit, Commit: s.commit, Reset: s.reset, Sanitize: s.sanitize,
	}[o.verb]()
	switch {
	case err != nil:
		return failure(err), err
	case status != admin.Success:
		return ExitRefused, fmt.Errorf("%s answered %s", o.device, status)
	}
	return ExitDone, nil
}

// usageError means that no command was sent that changes the drive.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func failure(err error) int {
	switch {
	case errors.As(err, new(usageError)), errors.Is(err, flag.ErrHelp):
		return ExitUsage
	case errors.Is(err, admin.ErrGone):
		return ExitGone
	}
	return ExitFailed
}

// options are the checked arguments.
type options struct {
	verb string
	// device is the kernel's name of the controller; model and serial are what it must identify as.
	device, model, serial string
	slot                  int
	action                admin.Action
	image                 string
	digest                inventory.Digest
	piece                 int
	erasure               admin.SanitizeAction
}

// maxPiece bounds one command, as FWUG does.
const maxPiece = 255 * 4096

func parse(args []string) (options, error) {
	if len(args) == 0 {
		return options{}, fmt.Errorf("name a command: %s, %s, %s or %s", DownloadCommit, Commit, Reset, Sanitize)
	}
	o := options{verb: args[0]}
	var action int
	var digest string
	flags := flag.NewFlagSet(Name+" "+o.verb, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.device, "device", "", "name of the controller, such as nvme0")
	flags.StringVar(&o.model, "model", "", "model of the drive")
	flags.StringVar(&o.serial, "serial", "", "serial number of the drive")
	switch o.verb {
	case DownloadCommit:
		flags.StringVar(&o.image, "image", "", "file with the image")
		flags.StringVar(&digest, "digest", "", "SHA-256 of the image")
		flags.IntVar(&o.piece, "piece", 0, "bytes of the image in one command")
		flags.IntVar(&o.slot, "slot", 0, "slot to store it in")
	case Commit:
		flags.IntVar(&o.slot, "slot", 0, "slot that holds the image")
		flags.IntVar(&action, "action", 0, "2: after the next reset, 3: at once")
	case Sanitize:
		flags.IntVar(&action, "action", 0, "2: block erase, 3: overwrite, 4: crypto erase")
	case Reset:
	default:
		return options{}, fmt.Errorf("%q is none of %s, %s, %s and %s", o.verb, DownloadCommit, Commit, Reset, Sanitize)
	}
	if err := flags.Parse(args[1:]); err != nil {
		return options{}, err
	}
	o.action, o.erasure = admin.Action(action), admin.SanitizeAction(action)
	var err error
	if o.verb == DownloadCommit {
		o.digest, err = inventory.ParseDigest(digest)
	}
	return o, errors.Join(err, o.check(flags.NArg()))
}

func (o options) check(rest int) error {
	switch {
	case rest > 0:
		return errors.New("unexpected arguments after the options")
	case o.device == "":
		return errors.New("--device is required")
	case o.verb == Sanitize && (o.erasure < admin.BlockErase || o.erasure > admin.CryptoErase):
		return fmt.Errorf("--action %d: want 2, 3 or 4", o.erasure)
	case (o.verb == DownloadCommit || o.verb == Commit) && (o.slot < 1 || o.slot > admin.MaxSlots):
		return fmt.Errorf("--slot %d: want 1 to %d; the drive is never left to choose", o.slot, admin.MaxSlots)
	case o.verb == Commit && o.action != admin.ActivateAtReset && o.action != admin.ActivateNow:
		return fmt.Errorf("--action %d: want 2 or 3", o.action)
	case o.verb == DownloadCommit && (o.piece < 4 || o.piece > maxPiece || o.piece%4 != 0):
		return fmt.Errorf("--piece %d: want a multiple of 4 up to %d", o.piece, maxPiece)
	}
	return nil
}

// isFor returns an error for a drive that is not the intended one. The controller stays open from then on, so it remains the
// same.
func (o options) isFor(c admin.Controller) error {
	found, err := admin.Identify(c)
	if err != nil {
		return err
	}
	if found.Model != o.model || found.Serial != o.serial {
		return usageError{fmt.Errorf("%s is drive %q %q, not %q %q: nothing was sent", o.device, found.Model, found.Serial, o.model, o.serial)}
	}
	return nil
}
