package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/v1"
)

// sentinels are the errors that have a code. The more specific ones come first, because they may wrap others.
var sentinels = []struct {
	code pluginv1.Code
	err  error
}{
	{pluginv1.Code_CODE_NOT_SUPPORTED, driver.ErrNotSupported},
	{pluginv1.Code_CODE_BUSY, command.ErrBusy},
	{pluginv1.Code_CODE_STILL_RUNNING, command.ErrStillRunning},
	{pluginv1.Code_CODE_LOST, command.ErrLost},
	{pluginv1.Code_CODE_NOT_FOUND, plugin.ErrNotFound},
	{pluginv1.Code_CODE_VERSION_CHANGED, plugin.ErrVersionChanged},
	{pluginv1.Code_CODE_CANCELLED, plugin.ErrCancelled},
	{pluginv1.Code_CODE_REFUSED_WRITING, plugin.ErrWriting},
	{pluginv1.Code_CODE_STOPPING, plugin.ErrStopping},
	{pluginv1.Code_CODE_IMAGE_CHANGED, command.ErrImage},
	{pluginv1.Code_CODE_FILE_EXISTS, fs.ErrExist},
	{pluginv1.Code_CODE_CANCELLED, context.Canceled},
}

// OK is the status of a success.
func OK() *pluginv1.Status { return &pluginv1.Status{Code: pluginv1.Code_CODE_OK} }

// StatusTo is the status of an error.
func StatusTo(err error) *pluginv1.Status {
	if err == nil {
		return OK()
	}
	if rejected := (*driver.RejectedError)(nil); errors.As(err, &rejected) {
		return &pluginv1.Status{Code: pluginv1.Code_CODE_REJECTED, Message: plugin.Message(rejected.Reason), Rejected: plugin.Message(rejected.Of)}
	}
	s := &pluginv1.Status{Code: pluginv1.Code_CODE_FAILED, Message: plugin.Message(err.Error())}
	for _, known := range sentinels {
		if errors.Is(err, known.err) {
			s.Code = known.code
			break
		}
	}
	return s
}

// StatusFrom is the error of a status, nil for a success.
func StatusFrom(s *pluginv1.Status) error {
	message := plugin.Message(s.GetMessage())
	switch s.GetCode() {
	case pluginv1.Code_CODE_OK:
		return nil
	case pluginv1.Code_CODE_REJECTED:
		return plugin.Rejected(s.GetRejected(), cmp.Or(message, "the plugin does not say why"))
	case pluginv1.Code_CODE_FAILED:
		message = cmp.Or(message, "the plugin does not say what went wrong")
		return errors.New(message)
	default:
	}
	for _, known := range sentinels {
		if known.code == s.GetCode() {
			return fmt.Errorf("%w: %s", known.err, message)
		}
	}
	return fmt.Errorf("the plugin answered with the unknown code %d: %s", s.GetCode(), message)
}

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
