package nvmetool

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

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
}

// maxPiece bounds one command, as FWUG does.
const maxPiece = 255 * 4096

func parse(args []string) (options, error) {
	if len(args) == 0 {
		return options{}, fmt.Errorf("name a command: %s, %s or %s", DownloadCommit, Commit, Reset)
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
	case Reset:
	default:
		return options{}, fmt.Errorf("%q is none of %s, %s and %s", o.verb, DownloadCommit, Commit, Reset)
	}
	if err := flags.Parse(args[1:]); err != nil {
		return options{}, err
	}
	o.action = admin.Action(action)
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
	case o.verb != Reset && (o.slot < 1 || o.slot > admin.MaxSlots):
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
