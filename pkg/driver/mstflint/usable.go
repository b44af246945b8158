package mstflint

import (
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Usable returns an error if the tool is not installed.
func (d *Driver) Usable() error { return command.Installed(d.runner, flintTool) }

// Reaches returns an error if the kernel is locked down: the tool talks to a card by writing to its configuration space.
func (d *Driver) Reaches(inventory.Identity) error {
	if d.root == nil {
		return nil
	}
	level, err := sysfs.Lockdown(d.root)
	if err != nil {
		return fmt.Errorf("find out whether the kernel lets %s reach the card: %w", flintTool, err)
	}
	if level != "" {
		return fmt.Errorf("the kernel is locked down (%s), as Secure Boot asks for, and does not let %s reach the card", level, flintTool)
	}
	return nil
}
