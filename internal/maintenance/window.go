package maintenance

import (
	"context"

	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Window is the maintenance of one node. All methods are idempotent, also across restarts.
type Window interface {
	// Schedule requests the maintenance, or resumes a failed one. It returns before the node is out of service.
	Schedule(ctx context.Context) error
	// State returns the state of the maintenance. An error means that it is not known.
	State(ctx context.Context) (State, error)
	// Fail marks the maintenance as failed: the node stays out of service until Release or the next Schedule.
	Fail(ctx context.Context, message string) error
	// Release returns the node to service. It is done once State returns step.MaintenanceNone.
	Release(ctx context.Context) error
}

// State is the state of the node's maintenance.
type State struct {
	Phase step.Maintenance
	// Node identifies the node that is out of service; a node that is registered again is another one. Empty where there is
	// no such identity, and while it is not out of service.
	Node string
	// Cordon is the one that ends with the maintenance; zero where the node was cordoned before, where that is not known, and while the
	// node is not out of service.
	Cordon Cordon
	// Message explains it, for people: what is waited for, or what to do.
	Message string
}

// Cordon is what is remembered of a cordon, so that it ends also where its maintenance was taken away.
type Cordon struct {
	// Node identifies the node, and By names who made it unschedulable.
	Node string `json:"node"`
	By   string `json:"by"`
}

// None is the maintenance of a host that is in no cluster: it is ready from the start, after a restart too, and nothing
// is drained.
type None struct{ released bool }

// Schedule makes the window ready again.
func (n *None) Schedule(context.Context) error { n.released = false; return nil }

// State is ready until Release.
func (n *None) State(context.Context) (State, error) {
	if n.released {
		return State{Phase: step.MaintenanceNone, Message: undrained}, nil
	}
	return State{Phase: step.MaintenanceReady, Message: undrained}, nil
}

const undrained = "nothing takes this machine out of service here, and what runs on it runs on"

// Fail does nothing: a host without a cluster has nowhere to report the failure.
func (n *None) Fail(context.Context, string) error { return nil }

// Release ends the window.
func (n *None) Release(context.Context) error { n.released = true; return nil }
