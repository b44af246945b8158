package daemon

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance/nodemaintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/drainrequest"
)

// windowOf is how this node is taken out of service. The client must not read from a cache. Only is the name of the one job that
// this process executes, in a pod which the drain must spare; empty in the daemon.
func windowOf(direct client.Client, c config.Daemon, only string) maintenance.Window {
	switch {
	case c.Maintenance == config.MaintenanceDrain:
		return &drainrequest.Window{Client: direct, NodeName: c.NodeName}
	case c.Maintenance == config.MaintenanceNone:
		return &maintenance.None{}
	case only != "":
		return &nodemaintenance.Node{Client: direct, Namespace: c.Namespace, NodeName: c.NodeName, Drain: nodemaintenance.DrainAllButJobs()}
	}
	return &nodemaintenance.Node{Client: direct, Namespace: c.Namespace, NodeName: c.NodeName}
}
