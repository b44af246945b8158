package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Manifest says what an archived image is.
type Manifest struct {
	// UniqueID, Class, Model and BoardID are of the hardware the image belongs to. It is not restored to other
	// hardware.
	UniqueID string          `json:"uniqueID"`
	Class    inventory.Class `json:"class"`
	Model    string          `json:"model,omitempty"`
	BoardID  string          `json:"boardID,omitempty"`
	// Version of the firmware, and BootID of the boot in which it ran.
	Version inventory.Version `json:"version"`
	BootID  string            `json:"bootID"`
	// Rollback is the origin of the image: RollbackReadBack or RollbackImage.
	Rollback inventory.Rollback `json:"rollback"`
	// Unhealthy marks firmware that ran when a job found the host unhealthy: it is kept as evidence and never restored.
	Unhealthy bool `json:"unhealthy,omitempty"`
	// Job that archived it; empty when a person did.
	Job  string    `json:"job,omitempty"`
	Time time.Time `json:"time"`
	// Digest and Size in bytes of the image file, and Sequence, which orders the entries of a device independently of
	// the clock. The store sets them.
	Digest   string `json:"digest"`
	Size     int64  `json:"size"`
	Sequence uint64 `json:"sequence"`
}

// ErrNone says that no matching image is archived.
var ErrNone = errors.New("nothing is archived")

// damagedError says what is wrong with an entry that can be read: it is incomplete, or does not match its name.
type damagedError struct{ reason string }

func (e *damagedError) Error() string { return e.reason }

func damaged(format string, args ...any) error { return &damagedError{fmt.Sprintf(format, args...)} }

// complete returns an error if a manifest lacks something that archiving needs.
func (m Manifest) complete() error {
	switch {
	case m.UniqueID == "":
		return damaged("manifest names no device")
	case m.Version == "":
		return damaged("manifest names no version")
	case m.BootID == "":
		return damaged("manifest names no boot id")
	case !slices.Contains(inventory.Classes(), m.Class):
		return damaged("manifest names unknown class %q; was it written by a newer daemon?", m.Class)
	case m.Rollback != inventory.RollbackReadBack && m.Rollback != inventory.RollbackImage:
		return damaged("manifest names unknown rollback %d; was it written by a newer daemon?", m.Rollback)
	}
	return nil
}

// maxManifest bounds a manifest in bytes.
const maxManifest = 64 << 10

// parseManifest tolerates fields it does not know and refuses values it does not understand.
func parseManifest(raw []byte) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, damaged("manifest cannot be read: %v", err)
	}
	if err := m.complete(); err != nil {
		return m, err
	}
	if _, err := inventory.ParseDigest(m.Digest); err != nil {
		return m, damaged("manifest: %v", err)
	}
	if m.Size <= 0 {
		return m, damaged("manifest names a size of %d bytes", m.Size)
	}
	return m, nil
}

// readManifest returns a *damagedError when the manifest is missing or invalid.
func readManifest(fsys durable.FS, dir string) (Manifest, error) {
	f, err := fsys.Open(filepath.Join(dir, manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, damaged("there is no %s", manifestFile)
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("open manifest: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	switch {
	case err != nil:
		return Manifest{}, fmt.Errorf("read manifest of %s: %w", dir, err)
	case len(raw) > maxManifest:
		return Manifest{}, damaged("manifest is larger than %d bytes", maxManifest)
	}
	return parseManifest(raw)
}
