package maintenance

import (
	"context"

	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// State is how the maintenance of the node stands.
type State struct {
	Phase step.Maintenance
	// Message says more, for people: what is waited for, or what to do.
	Message string
}

// Window is the maintenance of one node. All methods may be called again at any time and after a restart: what they
// do is done at most once.
type Window interface {
	// Schedule asks for the maintenance, or takes a failed one up again. It returns before the node is out of service.
	Schedule(ctx context.Context) error
	// State says how the maintenance stands. An error means that nobody knows.
	State(ctx context.Context) (State, error)
	// Fail marks the maintenance as failed: the node stays out of service until Release or the next Schedule.
	Fail(ctx context.Context, message string) error
	// Release returns the node to service. It is done once State says step.MaintenanceNone.
	Release(ctx context.Context) error
}

// None is the maintenance of a host that is in no cluster: it is ready from the start, after a restart too, and nothing
// is drained.
type None struct{ released bool }

// Schedule makes the window ready again.
func (n *None) Schedule(context.Context) error { n.released = false; return nil }

// State is ready until Release.
func (n *None) State(context.Context) (State, error) {
	if n.released {
		return State{Phase: step.MaintenanceNone}, nil
	}
	return State{Phase: step.MaintenanceReady}, nil
}

// Fail does nothing: there is nobody to tell.
func (n *None) Fail(context.Context, string) error { return nil }

// Release ends the window.
func (n *None) Release(context.Context) error { n.released = true; return nil }
