package artifact

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
)

// File is one file to fetch and what it holds.
type File struct {
	// URL is http, https, file or oci.
	URL string
	// Digest of the file's bytes. It may be zero where the URL is oci, which has one of its own.
	Digest inventory.Digest
	// Images to take from the file; everything else in it is ignored. One without a path is the file itself.
	Images []Description
	// Signature describes the required signature; nil if the file need not be signed.
	Signature *Signature
	// Access is how the file and its signature are fetched; nil if their servers need no credentials.
	Access *Access
}

// isImage reports whether the file is an image itself, and no archive of some.
func (f File) isImage() bool { return len(f.Images) == 1 && f.Images[0].Path == "" }

// Signature says where the signature of a file is and whose it must be.
type Signature struct {
	// URL of the signature: http, https or file.
	URL string
	// Trust is who may have signed.
	Trust signature.Trust
}

// Description says what an image is for. An empty field does not restrict anything, but an image that does not name its boards itself needs
// models or board ids here, or the vendor "any" if it is for every device of its class.
type Description struct {
	// Path within an archive; empty where the file is the image.
	Path     string
	Class    inventory.Class
	Vendor   string
	Models   []string
	BoardIDs []string
	Version  inventory.Version
	// Digest of the image itself; the zero digest where nobody says.
	Digest inventory.Digest
}

// isOf reports whether an image with that digest may be what is described.
func (d Description) isOf(digest inventory.Digest) bool {
	return d.Digest == (inventory.Digest{}) || d.Digest == digest
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
	// DownloadFailed: the file could not be fetched, or is larger than the limit.
	DownloadFailed Reason = "DownloadFailed"
	// DigestMismatch: the file has another digest than expected.
	DigestMismatch Reason = "DigestMismatch"
	// UnpackFailed: the archive is damaged, exceeds a limit or lacks an image.
	UnpackFailed Reason = "UnpackFailed"
	// ImageMismatch: the image's own metadata contradicts its description.
	ImageMismatch Reason = "ImageMismatch"
	// BoardsUnknown: neither an image nor its description says for which boards or models it is.
	BoardsUnknown Reason = "BoardsUnknown"
	// InvalidSpec: the description of the file is invalid or contradicts itself.
	InvalidSpec Reason = "InvalidSpec"
	// SignatureMissing: a file that must be signed has no signature.
	SignatureMissing = Reason(signature.Missing)
	// SignatureInvalid: the signature is damaged, malformed, or belongs to another file.
	SignatureInvalid = Reason(signature.Invalid)
	// SignatureUntrusted: the file is signed with a key or by an identity that is not trusted, or not at this time.
	SignatureUntrusted = Reason(signature.Untrusted)
)

// Error says why a file or an image is not available, and whether a retry without a change may help.
type Error struct {
	Reason Reason
	// Transient is true when a retry may succeed: network faults, 5xx answers, a full disk.
	Transient bool
	Err       error
	// absent is true when the origin says that it has no such file.
	absent bool
	// large is true when what was to be fetched exceeds a limit.
	large bool
	// after is how long the server asks to wait.
	after time.Duration
}

// Error returns the text of the cause.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// IsTooLarge reports whether an error of this package says that what was to be fetched exceeds a limit.
func IsTooLarge(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.large
}

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

func tooLarge(format string, args ...any) error {
	return &Error{Reason: DownloadFailed, Err: fmt.Errorf(format, args...), large: true}
}

func transient(r Reason, format string, args ...any) error {
	return &Error{Reason: r, Transient: true, Err: fmt.Errorf(format, args...)}
}

// CheckUnique finds different images declared for the same board and version, as far as this is known before the files are fetched: for
// plain images, from their declared digests and boards.
func CheckUnique(files []File) error {
	var images []Image
	for _, f := range files {
		if f.isImage() && f.Digest != (inventory.Digest{}) {
			for _, d := range f.Images {
				if len(d.BoardIDs) > 0 {
					images = append(images, Image{Description: d, Digest: f.Digest})
				}
			}
		}
	}
	return checkUnique(images)
}

// checkBeside finds the same in the images of a file that was fetched, and of those files beside it that are in store.
func (s *Store) checkBeside(known metadata, record fileRecord, f File, beside []File) error {
	images := imagesOf(record, f)
	for _, other := range beside {
		if other.URL == f.URL {
			continue
		}
		if r, ok := s.recorded(known, other); ok {
			images = append(images, imagesOf(r, other)...)
		}
	}
	return checkUnique(images)
}

// namedViolations bounds what a message says of images that contradict each other.
const namedViolations = 10

// checkUnique finds different images that claim the same board in the same version, and names each such board. Two images for the same
// board that are restricted to different vendors or models fit no device both.
func checkUnique(images []Image) error {
	type key struct {
		class   inventory.Class
		version inventory.Version
		board   string
	}
	type claim struct {
		digest      inventory.Digest
		vendor      string
		everyVendor bool
		models      map[string]bool
	}
	seen := map[key][]claim{}
	var violations []string
	for _, i := range images {
		c := claim{digest: i.Digest, models: map[string]bool{}}
		c.vendor, c.everyVendor = inventory.Vendor(i.Vendor)
		for _, m := range i.Models {
			c.models[inventory.NormalizeID(m)] = true
		}
		for _, board := range orAny(i.BoardIDs) {
			k := key{i.Class, inventory.NormalizeVersion(string(i.Version)), inventory.NormalizeID(board)}
			for _, other := range seen[k] {
				vendors := other.everyVendor || c.everyVendor || other.vendor == c.vendor
				if other.digest != c.digest && vendors && meet(other.models, c.models) {
					violations = append(violations, fmt.Sprintf("version %s for class %s, board id %q: %s and %s", i.Version, i.Class, k.board, other.digest, c.digest))
					break
				}
			}
			seen[k] = append(seen[k], c)
		}
	}
	if len(violations) == 0 {
		return nil
	}
	more := ""
	if n := len(violations) - namedViolations; n > 0 {
		violations, more = violations[:namedViolations], fmt.Sprintf("; and %d more", n)
	}
	return &Error{Reason: InvalidSpec, Err: fmt.Errorf("two images of %s%s; keep one of each", strings.Join(violations, "; of "), more)}
}

// meet reports whether a device may be of a model of both; none is no restriction.
func meet(a, b map[string]bool) bool {
	if len(a) == 0 || len(b) == 0 {
		return true
	}
	for m := range a {
		if b[m] {
			return true
		}
	}
	return false
}
