package wire

import (
	"errors"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
)

// Bounds of the values in a plugin's messages, in bytes and in elements.
const (
	maxText    = 256
	maxVersion = 128
	maxMessage = 4096
	maxPCI     = 64
	maxSlots   = 16
)

// texts collects the errors of the strings of a message.
type texts struct{ errs []error }

// take returns the string, and collects an error if it is not one line of at most limit bytes.
func (t *texts) take(field, s string, limit int) string {
	t.errs = append(t.errs, plugin.Text(field, s, limit))
	return s
}

func (t *texts) err() error { return errors.Join(t.errs...) }
