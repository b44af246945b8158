package mstflint

import (
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

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
	for _, f := range id.PCI {
		n, err := sysfs.VirtualFunctions(d.root, f)
		switch {
		case err != nil:
			return fmt.Sprintf("it is not known whether %s has virtual functions: %v", f, err)
		case n > 0:
			return fmt.Sprintf("InUse: %s has %d virtual functions, which a reset would remove", f, n)
		}
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
