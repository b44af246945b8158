package mstflint

import (
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

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
