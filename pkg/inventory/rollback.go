package inventory

// Rollback says how the running firmware of a device can be restored after another one was written.
type Rollback int

// The kinds of rollback. The zero value means that there is no rollback: only what a driver declares is used.
const (
	// RollbackNone: not at all.
	RollbackNone Rollback = iota
	// RollbackReadBack: the driver reads the image out of the device beforehand and writes it back.
	RollbackReadBack
	// RollbackSlot: it stays in a slot, and the driver makes the device run that slot again.
	RollbackSlot
	// RollbackImage: the driver writes an image of that version, which has to come from elsewhere.
	RollbackImage
)

var rollbackNames = [...]string{"None", "ReadBack", "Slot", "Image"}

// String is the name the API uses for the kind.
func (r Rollback) String() string {
	if r < 0 || int(r) >= len(rollbackNames) {
		return "Unknown"
	}
	return rollbackNames[r]
}
