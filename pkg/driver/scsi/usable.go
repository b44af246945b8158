package scsi

import (
	"errors"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

// Tools are those of sg3_utils.
func (*Driver) Tools() []string {
	return []string{"sg_inq", "sg_opcodes", "sg_read_buffer", "sg_write_buffer"}
}

// Usable returns an error that names the tools that are not installed.
func (d *Driver) Usable() error {
	var errs []error
	for _, tool := range d.Tools() {
		errs = append(errs, command.Installed(d.runner, tool))
	}
	return errors.Join(errs...)
}
