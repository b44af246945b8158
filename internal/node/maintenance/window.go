package maintenance

import (
	"context"

	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

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

// State is how the maintenance of the node stands.
type State struct {
	Phase step.Maintenance
	// Message says more, for people: what is waited for, or what to do.
	Message string
}
