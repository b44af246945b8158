package mstflint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Driver runs mstflint, mstfwreset and mstconfig. All functions of a card share one flash, so the card is addressed by its first
// function.
type Driver struct {
	runner command.Runner
	root   fs.FS
}

var (
	_ driver.Driver     = (*Driver)(nil)
	_ driver.Archiver   = (*Driver)(nil)
	_ driver.Configurer = (*Driver)(nil)
)

// New returns the driver. Root is the root of the host's file system with its sys directory; without one no card is reset,
// because it is not known who uses it.
func New(runner command.Runner, root fs.FS) *Driver { return &Driver{runner: runner, root: root} }

// Name is "mstflint".
func (*Driver) Name() string { return "mstflint" }

// Version is the version of this driver, not of the tool.
func (*Driver) Version() string { return "5" }

const (
	vendorID = "15b3"
	noPSID   = "the card reports no PSID, so no image can be matched to it"
)

// Support is SupportVendor for NVIDIA (Mellanox) adapters bound to the kernel's own driver or to none. An adapter
// passed through to a virtual machine is not touched.
func (*Driver) Support(id inventory.Identity) driver.Support {
	if id.Class != inventory.NIC || id.VendorID != vendorID || len(id.PCI) == 0 {
		return driver.SupportNone
	}
	switch id.Kernel {
	case "mlx5_core", "mlx4_core", "":
		return driver.SupportVendor
	}
	return driver.SupportNone
}

// Inspect reads the card. The unique id becomes the base MAC, or the base GUID of a card without one.
func (d *Driver) Inspect(ctx context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	card, err := address0(id)
	if err != nil {
		return id, inventory.Firmware{}, err
	}
	q, err := d.query(ctx, card)
	if err != nil {
		return id, inventory.Firmware{}, fmt.Errorf("inspect card %s: %w", card, err)
	}
	l, err := d.levels(ctx, id, card)
	if err != nil {
		return id, inventory.Firmware{}, fmt.Errorf("inspect card %s: %w", card, err)
	}
	if id.UniqueID, err = unique(q, id); err != nil {
		return id, inventory.Firmware{}, fmt.Errorf("inspect card %s: %w", card, err)
	}
	id.BoardID = q.PSID
	if q.PartNumber != "" {
		id.PartNumber = q.PartNumber
	}
	fw := inventory.Firmware{
		Running:    q.running(),
		Stored:     q.Stored,
		Activation: l.expects(),
		Format:     inventory.FormatDotted,
	}
	if pending(q) {
		fw.Activation = l.needs()
	}
	if fw.Activation > inventory.ActivateDeviceReset {
		fw.ActivationMessage = l.reason
	}
	if fw.ReadOnly = d.modeRefusal(ctx, id, card); q.PSID == "" {
		fw.ReadOnly = noPSID
	}
	fw.Rollback, fw.RollbackMessage = rollback(q)
	return id, fw, nil
}

// Check verifies that the image is complete, that its PSID is the card's and its version the desired one, and that no
// other image waits for activation and would block the burn.
func (d *Driver) Check(ctx context.Context, id inventory.Identity, img driver.Image) error {
	card, err := address0(id)
	if err != nil {
		return err
	}
	if err := img.Verify(); err != nil {
		return err
	}
	q, err := d.query(ctx, card)
	if err != nil {
		return fmt.Errorf("inspect card %s: %w", card, err)
	}
	if err := d.checkFit(ctx, q, img); err != nil {
		return err
	}
	if err := d.checkWhole(ctx, img); err != nil {
		return err
	}
	if why := d.modeRefusal(ctx, id, card); why != "" {
		return fmt.Errorf("check card %s: %s", card, why)
	}
	return d.checkWay(ctx, id, card, q, img.Version)
}

func (d *Driver) checkFit(ctx context.Context, card query, img driver.Image) error {
	c := img.HeldFor(queryImage(img.Path))
	r, err := d.runner.Run(ctx, c)
	if err != nil {
		return fmt.Errorf("read image: %w", err)
	}
	if r.ExitCode != 0 {
		if imageRefused(r) {
			return driver.Rejectf("%s is not an image mstflint can read: %s", img.Path, firstLine(r))
		}
		return fmt.Errorf("read image: %w", failure(c, r, errFailed))
	}
	image, err := parseQuery(string(r.Stdout))
	if err != nil {
		return fmt.Errorf("read image %s: %w", img.Path, err)
	}
	switch {
	case card.PSID == "":
		return driver.Rejectf(noPSID)
	case inventory.NormalizeID(image.PSID) != inventory.NormalizeID(card.PSID):
		return driver.Rejectf("%s is for PSID %q, the card has %q: name an image for that PSID", img.Path, image.PSID, card.PSID)
	case !same(image.Stored, img.Version):
		return driver.Rejectf("%s holds version %s, not %s: correct the version or the image", img.Path, image.Stored, img.Version)
	}
	return nil
}

func (d *Driver) checkWhole(ctx context.Context, img driver.Image) error {
	c := img.HeldFor(verifyImage(img.Path))
	r, err := d.runner.Run(ctx, c)
	if err != nil {
		return fmt.Errorf("verify image: %w", err)
	}
	switch {
	case r.ExitCode == 0:
		return nil
	case imageRefused(r):
		return driver.Rejectf("%s is damaged: %s", img.Path, firstLine(r))
	}
	return fmt.Errorf("verify image: %w", failure(c, r, errFailed))
}

// Write burns the image. An image that was staged before and never activated is loaded or reverted first. How to
// activate is queried after the burn, because that depends on the image.
func (d *Driver) Write(ctx context.Context, id inventory.Identity, img driver.Image, progress driver.Progress) (inventory.Activation, error) {
	card, err := address0(id)
	if err != nil {
		return 0, err
	}
	before, err := d.query(ctx, card)
	if err != nil {
		return 0, fmt.Errorf("inspect card %s: %w", card, err)
	}
	if same(before.Stored, img.Version) {
		return d.needs(ctx, id, card, before)
	}
	if err := d.checkFit(ctx, before, img); err != nil {
		return 0, err
	}
	if why := d.modeRefusal(ctx, id, card); why != "" {
		return 0, fmt.Errorf("burn card %s: nothing was written: %s", card, why)
	}
	lock, err := unique(before, id)
	if err != nil {
		return 0, fmt.Errorf("burn card %s: %w", card, err)
	}
	if pending(before) {
		if before, err = d.makeWay(ctx, id, card, lock, before, img.Version); err != nil {
			return 0, err
		}
		if same(before.Stored, img.Version) {
			return d.needs(ctx, id, card, before)
		}
	}
	c := img.HeldFor(burn(card, img.Path, lock, progress))
	r, err := d.runner.Run(ctx, c)
	if err != nil {
		return 0, fmt.Errorf("burn card %s: %w", card, err)
	}
	switch {
	case r.ExitCode == 0:
		if progress != nil {
			progress(100)
		}
		l, err := d.levels(ctx, id, card)
		return l.needs(), err
	case r.ExitCode == exitAborted:
		return d.confirm(ctx, id, card, img, failure(c, r, errors.New("burn was aborted")))
	case strings.Contains(output(r), "PSID mismatch"):
		return 0, driver.Rejectf("the card refused %s: %s", img.Path, firstLine(r))
	}
	return 0, fmt.Errorf("burn card %s: %w", card, failure(c, r, errors.New("burn failed")))
}

// confirm accepts an aborted burn only if the card really holds the image.
func (d *Driver) confirm(
	ctx context.Context, id inventory.Identity, card inventory.PCIAddress, img driver.Image, aborted error,
) (inventory.Activation, error) {
	q, err := d.query(ctx, card)
	if err != nil {
		return 0, fmt.Errorf("inspect card %s: %w", card, err)
	}
	if !same(q.Stored, img.Version) {
		return 0, fmt.Errorf("burn card %s, which still holds %s: %w", card, q.Stored, aborted)
	}
	return d.needs(ctx, id, card, q)
}

// Activate resets the card, and its kernel driver if the reset level includes it, for a stored image or, where none waits, for settings, and reads
// what is in force afterwards. If the reset is impossible, refused or fails, a reboot loads them, as long as the card still answers. Settings
// that wait when an image runs are no reason to go on: somebody else may have left them for later.
func (d *Driver) Activate(ctx context.Context, id inventory.Identity, kind inventory.Activation) (inventory.Activation, error) {
	if kind != inventory.ActivateDeviceReset {
		return 0, fmt.Errorf("activate by %s: %w", kind, driver.ErrNotSupported)
	}
	card, err := address0(id)
	if err != nil {
		return 0, err
	}
	before, err := d.query(ctx, card)
	if err != nil {
		return 0, fmt.Errorf("inspect card %s: %w", card, err)
	}
	if !pending(before) {
		if settings, err := d.settingsWait(ctx, card); err != nil {
			return 0, fmt.Errorf("read the settings of card %s: %w", card, err)
		} else if !settings {
			return inventory.ActivateNone, nil
		}
	}
	l, err := d.levels(ctx, id, card)
	if err != nil {
		return 0, err
	}
	if l.livePatch = l.livePatch && pending(before); l.livePatch && l.pciReset { // a patch loads no settings, a reset both
		settings, err := d.settingsWait(ctx, card)
		l.livePatch = err != nil || !settings
	}
	lock, err := unique(before, id)
	if err != nil {
		return 0, fmt.Errorf("reset card %s: %w", card, err)
	}
	done := false
	_, why, err := d.load(ctx, card, lock, before, l, func(q query) bool {
		if done = !pending(q); done && !pending(before) {
			wait, err := d.settingsWait(ctx, card)
			done = err == nil && !wait
		}
		return done
	})
	if err != nil {
		return 0, err
	}
	if !done {
		return 0, &driver.NotEnoughError{Needs: l.restart(), Reason: cmp.Or(why, l.reason, "no reset of the card loads what it stores")}
	}
	return inventory.ActivateNone, nil
}

// needs is the activation the card's stored image needs.
func (d *Driver) needs(ctx context.Context, id inventory.Identity, card inventory.PCIAddress, q query) (inventory.Activation, error) {
	if !pending(q) {
		return inventory.ActivateNone, nil
	}
	l, err := d.levels(ctx, id, card)
	return l.needs(), err
}

func pending(q query) bool {
	return inventory.Firmware{Running: q.running(), Stored: q.Stored}.Pending()
}

var errFailed = errors.New("query failed")

// query reads the card, unless the kernel is locked down: of version 4.33 on the tool then gives every adapter of the same model that has
// no kernel driver to vfio-pci, to reach the one that it was told (bindDeviceToVfioPciDriver of mstflint's mtcr_ul).
func (d *Driver) query(ctx context.Context, card inventory.PCIAddress) (query, error) {
	if err := d.Reaches(inventory.Identity{}); err != nil {
		return query{}, err
	}
	c := queryDevice(card)
	r, err := d.runner.Run(ctx, c)
	if err != nil {
		return query{}, err
	}
	if r.ExitCode != 0 {
		return query{}, failure(c, r, errFailed)
	}
	q, err := parseQuery(string(r.Stdout))
	if err != nil {
		return query{}, failure(c, r, err)
	}
	return q, nil
}

// failure is command.Failed with the tool's own error, wherever it was printed: mstflint prints it on standard output,
// and a warning on standard error would hide it.
func failure(c command.Command, r command.Result, cause error) error {
	switch own := errorLine(r.Stdout); {
	case strings.TrimSpace(output(r)) == "":
		cause = fmt.Errorf("%w: the tool printed nothing", cause)
	case own != "" && errorLine(r.Stderr) == "":
		r.Stderr = append([]byte(own+"\n"), r.Stderr...)
	}
	return command.Failed(c, r, cause)
}

// errorLine is the last line the tool marks as an error.
func errorLine(out []byte) string {
	last := ""
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "-E- ") {
			last = line
		}
	}
	return last
}

func address0(id inventory.Identity) (inventory.PCIAddress, error) {
	if len(id.PCI) == 0 {
		return inventory.PCIAddress{}, fmt.Errorf("find card %s: it has no PCI address", id.UniqueID)
	}
	return id.PCI[0], nil
}

// unique is the id the card reports, or else the one from the kernel.
func unique(q query, id inventory.Identity) (string, error) {
	if u := q.uniqueID(); u != "" {
		return u, nil
	}
	if id.UniqueID == "" {
		return "", errors.New("the card has neither a base MAC nor a base GUID: set them with the vendor's tool")
	}
	return id.UniqueID, nil
}

// same compares versions whose sections mstflint may pad with zeros.
func same(a, b inventory.Version) bool {
	return a != "" && a.Compare(b, inventory.FormatDotted) == inventory.Same
}

// imageRefused reports whether the tool rejected the image, as opposed to having failed itself.
func imageRefused(r command.Result) bool {
	refusals := []string{"Failed to query image", "Cannot open Image", "image verification failed"}
	return slices.ContainsFunc(refusals, func(text string) bool { return strings.Contains(output(r), text) })
}

// output is all the tool printed: mstflint's errors are on standard output.
func output(r command.Result) string { return string(r.Stdout) + string(r.Stderr) }

// firstLine is the tool's own error, which it marks with -E-.
func firstLine(r command.Result) string {
	out := output(r)
	if i := strings.Index(out, "-E- "); i >= 0 {
		out = out[i+len("-E- "):]
	}
	line, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
	return strings.TrimSpace(line)
}
