package plugin

import "errors"

// Errors of plugins that package driver does not define.
var (
	ErrNotFound       = errors.New("no such task")
	ErrVersionChanged = errors.New("the plugin now has another version")
	ErrCancelled      = errors.New("cancelled")
	ErrWriting        = errors.New("a running write is never interrupted")
	ErrStopping       = errors.New("the plugin is stopping")
)
