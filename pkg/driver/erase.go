package driver

import (
	"context"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Eraser is a Driver of drives that can erase all that they hold by themselves. Such an erasure goes on in the drive, whatever becomes of
// the process that began it, and after a loss of power once the drive has power again.
type Eraser interface {
	// Erasure reads what the drive can, and how its last erasure stands, also while one runs. It changes nothing.
	Erasure(ctx context.Context, id inventory.Identity) (Erasure, error)
	// Erase begins an erasure and returns once the drive has. It takes the lock of Updater. A *RejectedError means that the drive
	// has not begun, and any other error that this is not known.
	Erase(ctx context.Context, id inventory.Identity, method EraseMethod) error
}

// EraseMethod is how a drive makes its data unreadable.
type EraseMethod string

// The methods, in the order in which they are taken where none is asked for. Each of them is a purge by NIST SP 800-88.
const (
	// EraseCrypto replaces the key by which the drive encrypts all that it stores.
	EraseCrypto EraseMethod = "Crypto"
	// EraseBlock erases the blocks of the medium.
	EraseBlock EraseMethod = "Block"
	// EraseOverwrite overwrites the medium once.
	EraseOverwrite EraseMethod = "Overwrite"
)

// EraseMethods lists the methods in their order.
func EraseMethods() []EraseMethod { return []EraseMethod{EraseCrypto, EraseBlock, EraseOverwrite} }

// EraseState says how the last erasure of a drive stands.
type EraseState int

// The states.
const (
	// EraseNever: the drive was never erased; one with NoLog neither erases itself nor failed to, however often it was erased.
	EraseNever EraseState = iota
	EraseRunning
	EraseCompleted
	// EraseFailed: the drive gives no data until another erasure has succeeded, or somebody ends this state.
	EraseFailed
)

// Erasure is what a drive can erase by, and how its last erasure stands.
type Erasure struct {
	// Methods are those that the drive offers, in their order.
	Methods []EraseMethod
	// Otherwise says why the drive has no method, or what it offers instead, for people; empty where it has some.
	Otherwise string
	// Shared says why something else than this host may use what would be erased, for people; empty where nothing says so.
	Shared string
	// NoLog says that the drive reports an erasure while it runs and where it failed, and keeps nothing of one that succeeded: State is
	// EraseRunning, EraseFailed or EraseNever, and Method, Mark and Untouched have no value. Whether it was erased is known only to who saw it
	// running, and by what it stores.
	NoLog bool
	// State is that of the last erasure, Percent how far it is while it runs, and Method its method; empty where it has none of these.
	State   EraseState
	Percent int
	Method  EraseMethod
	// Untouched says that nothing was written since the last erasure succeeded, or since the drive was made.
	Untouched bool
	// By is what the drive calls it, for people, such as "NVMe sanitize".
	By string
	// Report is what the drive reports of it, for people, such as "log 81h: completed".
	Report string
	// Log is the drive's log that Report was read from, with its fields, for a certificate.
	Log string
	// Mark is what the drive was told for it. Two erasures may have the same.
	Mark uint32
	// LeaveBy says how a person ends EraseFailed without another erasure.
	LeaveBy string
}
