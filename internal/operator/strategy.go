package operator

import (
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
)

// Strategy is one way of having jobs executed on their nodes. Whatever executes a job reports it in the status of the
// FirmwareJob; nothing else in the operator depends on the strategy.
type Strategy interface {
	// Name is what --update-strategy says.
	Name() string
	// SetupWithManager adds what the operator itself has to do for it. It fails when the strategy is not fully configured.
	SetupWithManager(mgr manager.Manager) error
}

// choose returns the one strategy that is named. It fails when none or more than one is, or when it is not known.
func choose(named []string, known []Strategy) (Strategy, error) {
	var names []string
	for _, s := range known {
		names = append(names, s.Name())
	}
	all := strings.Join(names, ", ")
	switch len(named) {
	case 0:
		return nil, fmt.Errorf("--update-strategy is missing: name exactly one of %s", all)
	case 1:
	default:
		return nil, fmt.Errorf("--update-strategy names %d strategies (%s): name exactly one of %s; one operator executes all jobs in one way",
			len(named), strings.Join(named, ", "), all)
	}
	for _, s := range known {
		if s.Name() == named[0] {
			return s, nil
		}
	}
	return nil, fmt.Errorf("--update-strategy %q is not known: name exactly one of %s", named[0], all)
}

// Daemon leaves the jobs of each node to the daemon there, which finds them by itself.
type Daemon struct{}

// Name is that of the strategy.
func (Daemon) Name() string { return config.StrategyDaemon }

// SetupWithManager has nothing to add.
func (Daemon) SetupWithManager(manager.Manager) error { return nil }
