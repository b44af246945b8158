package maintenance

import (
	"context"

	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

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

// Fail does nothing: a host without a cluster has nowhere to report the failure.
func (n *None) Fail(context.Context, string) error { return nil }

// Release ends the window.
func (n *None) Release(context.Context) error { n.released = true; return nil }
