package mstflint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// makeWay handles an image that was burned earlier, never ran, and is not the desired one. Nothing is burned over it:
// firmware may refuse that until a reset, and the burn would go to the part of the flash that holds the running image.
// It returns the card's state afterwards.
//
// If the running version is the desired one, the card reverts to it. No reset may come before that, because it would
// load the other image. Otherwise the waiting image is loaded first, as NVIDIA's own agent for OpenStack does, or else
// reverted.
func (d *Driver) makeWay(
	ctx context.Context, id inventory.Identity, card inventory.PCIAddress, lock string, q query, want inventory.Version,
) (query, error) {
	if same(q.running(), want) {
		after, err := d.takeBack(ctx, card, lock)
		if errors.Is(err, driver.ErrNotSupported) {
			return q, nil // then the desired version, which runs, is burned again: nothing better can replace the stored image
		}
		return after, err
	}
	l, err := d.levels(ctx, id, card)
	if err != nil {
		return q, fmt.Errorf("inspect card %s: %w", card, err)
	}
	after, why, err := d.load(ctx, card, lock, q, l, func(q query) bool { return !pending(q) })
	if err != nil {
		return q, fmt.Errorf("load the stored image %s before another is burned: %w", q.Stored, err)
	}
	if !pending(after) {
		return after, nil
	}
	if after, err = d.takeBack(ctx, card, lock); errors.Is(err, driver.ErrNotSupported) {
		return q, fmt.Errorf("%w: %w", blocked(q, cmp.Or(why, l.reason)), err)
	}
	return after, err
}

// blocked is the error that nothing can be burned now; why says what stands in the way of a reset, if that is known.
func blocked(q query, why string) error {
	if why != "" {
		why = " (" + why + ")"
	}
	return fmt.Errorf("the card runs %s and stores %s, which was never activated; no reset loads it%s, so nothing is burned over it: "+
		"reboot the node first", q.running(), q.Stored, why)
}

// checkWay returns an error if the card cannot take another image: one waits for activation, and the card can neither
// be reset nor revert it. The latter is known only of cards without firmware-controlled updates.
func (d *Driver) checkWay(
	ctx context.Context, id inventory.Identity, card inventory.PCIAddress, q query, want inventory.Version,
) error {
	if !pending(q) || same(q.Stored, want) || same(q.running(), want) || !q.legacy() {
		return nil
	}
	l, err := d.levels(ctx, id, card)
	if err != nil {
		return fmt.Errorf("inspect card %s: %w", card, err)
	}
	if len(l.resets()) > 0 {
		return nil
	}
	return blocked(q, l.reason)
}

// takeBack makes the running image the stored one again, in place of one that was burned and never ran. It returns an
// error that wraps ErrNotSupported when this card or its firmware cannot.
func (d *Driver) takeBack(ctx context.Context, card inventory.PCIAddress, lock string) (query, error) {
	c := reactivate(card, lock)
	r, err := d.runner.Run(ctx, c)
	if err != nil {
		return query{}, fmt.Errorf("revert the stored image of card %s: %w", card, err)
	}
	if r.ExitCode != 0 && strings.Contains(output(r), unknownCommand) {
		return query{}, fmt.Errorf("revert the stored image of card %s: %w", card,
			failure(c, r, fmt.Errorf("%s: install a newer mstflint, or reboot the node", firstLine(r))))
	}
	if r.ExitCode != 0 && reactivateUnsupported(output(r)) {
		return query{}, fmt.Errorf("revert the stored image of card %s: %s: %w", card, firstLine(r), driver.ErrNotSupported)
	}
	after, err := d.query(ctx, card)
	if err != nil {
		return query{}, fmt.Errorf("inspect card %s: %w", card, err)
	}
	if pending(after) {
		return query{}, fmt.Errorf("revert the stored image of card %s: %w", card,
			failure(c, r, fmt.Errorf("it still holds %s", after.Stored)))
	}
	return after, nil
}

// unknownCommand is what the tool prints about a command that it does not know. It says nothing about the card.
const unknownCommand = "Invalid command"

// reactivateUnsupported reports whether the output says that the firmware cannot revert an image, now or at all, as
// opposed to having failed to.
func reactivateUnsupported(out string) bool {
	for _, text := range []string{
		"doesn't support this operation", "peration not supported", "Prohibited by current FW version", "FW reset required",
		"FW programming needed", "reactivation blocked",
	} {
		if strings.Contains(out, text) {
			return true
		}
	}
	return false
}

// obstacle says why the card and its kernel driver are not reset; empty when no reason is known. mstfwreset looks for most of
// these itself, but only after it has removed the virtual functions of the card.
func (d *Driver) obstacle(id inventory.Identity, card inventory.PCIAddress) string {
	for _, f := range id.PCI {
		if f.Slot() != card.Slot() {
			return fmt.Sprintf("the card is in two slots, at %s and %s (Socket-Direct), and mstfwreset would reset one of them alone", card, f)
		}
	}
	if isBlueField(id) {
		return "a reset may bring a BlueField back in another mode"
	}
	for _, tool := range resetHelpers {
		if err := command.Installed(d.runner, tool); err != nil {
			return "mstfwreset needs " + tool + ", which is not installed: install the package pciutils"
		}
	}
	return d.users(id, card)
}

// ownDrivers are the kernel drivers that mstfwreset stops and starts again.
var ownDrivers = []string{"", "mlx5_core", "rshim_pcie", "nvme"}

// users says who uses the card in a way that does not survive a reset; empty when nobody does.
func (d *Driver) users(id inventory.Identity, card inventory.PCIAddress) string {
	if d.root == nil {
		return "it is not known whether the card is in use"
	}
	if used := sysfs.VirtualFunctionsInUse(d.root, id.PCI); used != "" {
		return used
	}
	functions, err := sysfs.SlotFunctions(d.root, card)
	if err != nil {
		return fmt.Sprintf("it is not known who uses the card: %v", err)
	}
	for _, f := range functions {
		if !slices.Contains(ownDrivers, f.Driver) {
			return fmt.Sprintf("InUse: %s belongs to the kernel driver %s, which mstfwreset does not stop", f.Address, f.Driver)
		}
	}
	return ""
}

// Tools are mstflint and its companions, and the programs that mstfwreset runs.
func (*Driver) Tools() []string {
	return append([]string{flintTool, resetTool, configTool}, resetHelpers...)
}

// resetHelpers are what mstfwreset finds and resets cards with.
var resetHelpers = []string{"setpci", "lspci"}

// Usable returns an error if the tool is not installed.
func (d *Driver) Usable() error { return command.Installed(d.runner, flintTool) }

// Reaches returns an error if the kernel is locked down: the tool talks to a card by writing to its configuration space. A level that
// cannot be read is not a reason: the tool will find out, and a failed read must not switch the card to another driver.
func (d *Driver) Reaches(inventory.Identity) error {
	if d.root == nil {
		return nil
	}
	if level, err := sysfs.Lockdown(d.root); err == nil && level != "" {
		return fmt.Errorf("the kernel is locked down (%s), as Secure Boot asks for, and does not let %s reach the card", level, flintTool)
	}
	return nil
}
