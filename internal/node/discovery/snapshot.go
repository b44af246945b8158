package discovery

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Snapshot is what one scan found.
type Snapshot struct {
	host.Inventory
	// Time is when the scan ended.
	Time time.Time
	// Requested says that a person or a job requested the scan, so that its time is published even if nothing changed.
	Requested bool
	// Answers is the request of a person, spec.requests.scan, that was known when the scan began; empty for none.
	Answers string
}

// complete reports whether every class was enumerated.
func (s Snapshot) complete() bool { return len(s.Incomplete) == 0 }

// enumerated reports whether the absence of a device of the class is a fact. An object whose status was never written has no
// class; its absence is a fact when every class was enumerated.
func (s Snapshot) enumerated(class inventory.Class) bool {
	if class == "" {
		return s.complete()
	}
	return s.Incomplete[class] == nil
}
