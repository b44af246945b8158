package discovery

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Snapshot is what one scan found.
type Snapshot struct {
	Machine inventory.Machine
	BootID  string
	Devices []inventory.Device
	// Incomplete says why a class of devices could not be enumerated to its end; absence of a device of that class
	// means nothing then.
	Incomplete map[inventory.Class]error
	// Time is when the scan ended.
	Time time.Time
	// Requested says that a person or a job asked for the scan, so that its time is reported though nothing changed.
	Requested bool
}

// complete reports whether every class was enumerated.
func (s Snapshot) complete() bool { return len(s.Incomplete) == 0 }
