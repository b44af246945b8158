package mstflint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Archive reads the image on the card's flash into a new file, and accepts it only if it is complete, for the card's
// PSID and of the running version. A card that stores another image than it runs would return the wrong one, so that is
// not supported. On any error the file is removed.
func (d *Driver) Archive(ctx context.Context, id inventory.Identity, path string) error {
	card, err := address0(id)
	if err != nil {
		return err
	}
	q, err := d.query(ctx, card)
	if err != nil {
		return fmt.Errorf("inspect card %s: %w", card, err)
	}
	if kind, message := rollback(q); kind != inventory.RollbackReadBack || message != "" {
		return fmt.Errorf("read image of card %s: %s: %w", card, message, driver.ErrNotSupported)
	}
	// mstflint would replace an existing file.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("read image of card %s: %w", card, err)
	}
	if err = f.Close(); err == nil {
		err = d.readImage(ctx, card, q, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("read image of card %s: %w", card, err), os.Remove(path))
	}
	return nil
}

// readImage reads the image and checks that Write would accept it for the same card. mstflint does not check that the
// last bytes reached the disk.
func (d *Driver) readImage(ctx context.Context, card inventory.PCIAddress, q query, path string) error {
	c := readImage(card, path)
	r, err := d.runner.Run(ctx, c)
	if err != nil {
		return err
	}
	if r.ExitCode != 0 && readUnsupported(output(r)) {
		return fmt.Errorf("%s: %w", firstLine(r), driver.ErrNotSupported)
	}
	if r.ExitCode != 0 {
		return failure(c, r, errors.New("reading failed"))
	}
	img, err := driver.Measure(path, q.running())
	if err == nil {
		err = d.checkFit(ctx, q, img)
	}
	if err == nil {
		err = d.checkWhole(ctx, img)
	}
	if rejected, ok := errors.AsType[*driver.RejectedError](err); ok {
		return fmt.Errorf("the image that was read could not be written back: %s", rejected.Reason)
	}
	return err
}

// secureFirmware is why the image of the running version has to come from a source.
const secureFirmware = "the card's secure firmware does not allow its image to be read: an image of the running version from a FirmwareSource is needed"

// readUnsupported reports whether the output says that the firmware does not allow its image to be read.
func readUnsupported(out string) bool {
	return strings.Contains(out, "Unsupported operation") || strings.Contains(out, "Read image is not supported")
}

// rollback says how the card's running firmware can be restored, and why not or what that needs first.
func rollback(q query) (inventory.Rollback, string) {
	switch {
	case q.PSID == "":
		return inventory.RollbackNone, noPSID
	case q.Stored == "":
		return inventory.RollbackNone, "the tool cannot read the image on the card's flash"
	case q.Secure:
		return inventory.RollbackImage, secureFirmware
	case pending(q):
		return inventory.RollbackReadBack, fmt.Sprintf("the card runs %s and stores %s, and only the stored image can be read: activate %s first",
			q.running(), q.Stored, q.Stored)
	}
	return inventory.RollbackReadBack, ""
}
