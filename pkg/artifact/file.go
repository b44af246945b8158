package artifact

import (
	"errors"
	"fmt"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/archive"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
)

// Format says how a file holds its images.
type Format string

// The formats.
const (
	FormatImage   Format = "Image"
	FormatZip     Format = Format(archive.Zip)
	FormatTar     Format = Format(archive.Tar)
	FormatTarGzip Format = Format(archive.TarGzip)
	FormatTarXz   Format = Format(archive.TarXz)
	FormatTarZstd Format = Format(archive.TarZstd)
	FormatCabinet Format = Format(archive.Cabinet)
)

// File is one file to fetch and what it holds.
type File struct {
	// URL is http, https, file or oci.
	URL string
	// Digest of the file's bytes. It may be zero where the URL is oci, which has one of its own.
	Digest inventory.Digest
	Format Format
	// Images to take from the file; everything else in it is ignored.
	Images []Description
	// Signature says who must have signed the file; nil for nobody.
	Signature *Signature
	// Access is how the file and its signature are fetched; nil where their servers ask nobody.
	Access *Access
}

// Signature says where the signature of a file is and whose it must be.
type Signature struct {
	// URL of the signature: http, https or file.
	URL string
	// Trust is who may have signed.
	Trust signature.Trust
}

// Description says what an image is for. Empty fields are no restriction, but an image that does not say itself for which boards it is
// needs models or board ids here, or the vendor "*" if it is for every device of its class.
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
	// ImageMismatch: an image says of itself that it is another one than its description says.
	ImageMismatch Reason = "ImageMismatch"
	// BoardsUnknown: neither an image nor its description says for which boards or models it is.
	BoardsUnknown Reason = "BoardsUnknown"
	// InvalidSpec: the description of the file is invalid or contradicts itself.
	InvalidSpec Reason = "InvalidSpec"
	// SignatureMissing: a file that must be signed has no signature.
	SignatureMissing = Reason(signature.Missing)
	// SignatureInvalid: the signature is damaged, is none, or is not of this file.
	SignatureInvalid = Reason(signature.Invalid)
	// SignatureKeyUnknown: the file is signed with a key or by an identity that is not trusted.
	SignatureKeyUnknown = Reason(signature.UnknownKey)
	// SignatureExpired: the key that signed is not valid any more, or not yet, or its certificate was not when it signed.
	SignatureExpired = Reason(signature.Expired)
)

// IsSignature reports whether the reason is one of a signature that does not hold.
func (r Reason) IsSignature() bool {
	switch r {
	case SignatureMissing, SignatureInvalid, SignatureKeyUnknown, SignatureExpired:
		return true
	}
	return false
}

// OfContents reports whether an error of this package is about what a file holds: it was fetched, and is the right one.
func OfContents(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Reason {
	case UnpackFailed, ImageMismatch, BoardsUnknown:
		return true
	}
	return e.contents || e.Reason.IsSignature()
}

// Error says why a file or an image is not available, and whether a retry without a change may help.
type Error struct {
	Reason Reason
	// Transient is true when a retry may succeed: network faults, 5xx answers, a full disk.
	Transient bool
	Err       error
	// absent is true when the origin says that it has no such file.
	absent bool
	// contents is true when the fault is in what a file holds, though its reason does not say so.
	contents bool
	// after is how long the server asks to wait.
	after time.Duration
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
