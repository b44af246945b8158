package archive

import (
	"errors"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Manifest says what an archived image is.
type Manifest struct {
	// UniqueID, Class, Model and BoardID are of the hardware the image belongs to. It is restored to no other.
	UniqueID string          `json:"uniqueID"`
	Class    inventory.Class `json:"class"`
	Model    string          `json:"model,omitempty"`
	BoardID  string          `json:"boardID,omitempty"`
	// Version of the firmware, and BootID of the kernel under which it ran.
	Version inventory.Version `json:"version"`
	BootID  string            `json:"bootID"`
	// Rollback is how it came here: RollbackReadBack or RollbackImage.
	Rollback inventory.Rollback `json:"rollback"`
	// Unhealthy marks what ran when a job found the host unhealthy: it is kept as evidence and never restored.
	Unhealthy bool `json:"unhealthy,omitempty"`
	// Job it was archived for; empty when a person did it.
	Job  string    `json:"job,omitempty"`
	Time time.Time `json:"time"`
	// Digest and Size in bytes of the image file. The store fills them in.
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// ErrNone says that nothing fitting is archived.
var ErrNone = errors.New("nothing is archived")
