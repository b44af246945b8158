package strategy

import (
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
)

// Daemon leaves the jobs of each node to the daemon there, which finds them by itself.
type Daemon struct{}

// Name is that of the strategy.
func (Daemon) Name() string { return config.StrategyDaemon }

// SetupWithManager has nothing to add.
func (Daemon) SetupWithManager(manager.Manager) error { return nil }
