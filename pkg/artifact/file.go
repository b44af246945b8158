package artifact

import (
	"errors"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Format says how a file holds its images.
type Format string

// The formats.
const (
	FormatImage   Format = "Image"
	FormatZip     Format = "Zip"
	FormatTarGzip Format = "TarGzip"
)

// File is one file to fetch and what it holds.
type File struct {
	// URL is http, https or file.
	URL string
	// Digest of the file's bytes.
	Digest inventory.Digest
	Format Format
	// Images to take from the file; everything else in it is ignored.
	Images []Description
}

// Description says what an image is for. Empty fields are no restriction.
type Description struct {
	// Path within an archive; empty for FormatImage.
	Path     string
	Class    inventory.Class
	Vendor   string
	Models   []string
	BoardIDs []string
	Version  inventory.Version
}

// Image is a verified image in the store.
type Image struct {
	Description
	Digest inventory.Digest
	// Size in bytes.
	Size int64
}

// Reason classifies why a file or an image is not available.
type Reason string

// The reasons. They are the reasons of the FirmwareSource conditions.
const (
	// StorageFailed: the store cannot be read or written.
	StorageFailed Reason = "StorageFailed"
	// DownloadFailed: the file could not be fetched.
	DownloadFailed Reason = "DownloadFailed"
	// DigestMismatch: the file has another digest than expected.
	DigestMismatch Reason = "DigestMismatch"
	// TooLarge: the file, an image or an archive as a whole exceeds its limit.
	TooLarge Reason = "TooLarge"
	// UnpackFailed: the archive is damaged or lacks an image.
	UnpackFailed Reason = "UnpackFailed"
	// InvalidSpec: the description of the file is invalid or contradicts itself.
	InvalidSpec Reason = "InvalidSpec"
)

// Error says why a file or an image is not available, and whether a retry without a change may help.
type Error struct {
	Reason Reason
	// Transient is true when a retry may succeed: network faults, 5xx answers, a full disk.
	Transient bool
	Err       error
}

// Error returns the text of the cause.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf returns the reason of any error of this package, and whether a retry may help.
func ReasonOf(err error) (reason Reason, transient bool) {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason, e.Transient
	}
	return StorageFailed, true
}

func permanent(r Reason, format string, args ...any) error {
	return &Error{Reason: r, Err: fmt.Errorf(format, args...)}
}

func transient(r Reason, format string, args ...any) error {
	return &Error{Reason: r, Transient: true, Err: fmt.Errorf(format, args...)}
}
