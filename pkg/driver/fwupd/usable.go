package fwupd

import (
	"errors"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

// Tools are those that the driver runs.
func (*Driver) Tools() []string { return []string{tool} }

// Tools are those that the driver runs.
func (*ATA) Tools() []string { return []string{identifyTool, tool} }

// unusable says why fwupdtool cannot be used, for people, by the error of the runner.
func unusable(err error) string {
	var e *command.Error
	switch {
	case errors.Is(err, command.ErrNotFound):
		return "fwupdtool is not installed where the daemon looks for tools: add it to the image, or correct --tool-path"
	case errors.As(err, &e):
		err = e.Err
	}
	return fmt.Sprintf("fwupdtool: %v", err)
}

// Usable returns an error if the tool is not installed.
func (d *Driver) Usable() error { return command.Installed(d.runner, tool) }
