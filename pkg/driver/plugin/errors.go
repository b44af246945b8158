package plugin

import "errors"

// Errors a plugin answers with that the contract of drivers has no word for.
var (
	ErrNotFound       = errors.New("no such task")
	ErrVersionChanged = errors.New("the plugin is of another version now")
	ErrCancelled      = errors.New("cancelled")
	ErrWriting        = errors.New("a write is not broken off")
	ErrStopping       = errors.New("the plugin is ending")
)
