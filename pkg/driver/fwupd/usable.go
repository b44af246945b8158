package fwupd

import "github.com/nodefirmware/node-firmware-operator/pkg/command"

// Usable returns an error if the tool is not installed.
func (d *Driver) Usable() error { return command.Installed(d.runner, tool) }
