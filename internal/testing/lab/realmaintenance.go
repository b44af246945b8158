package lab

import (
	"context"
	"path/filepath"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
)

// startMaintenanceOperator starts the real maintenance-operator, and starts it again when it ends. It looks every ten seconds, so that
// each maintenance of the lab takes most of a minute. It has no webhooks, because nothing here makes their certificates.
func (l *Lab) startMaintenanceOperator(ctx context.Context) error {
	l.say("Starting the maintenance-operator %s …", l.options.MaintenanceOperator)
	log := filepath.Join(l.options.Dir, "maintenance-operator.log")
	l.maintenance.run = func() (*child.Process, error) {
		env := []string{"ENABLE_WEBHOOKS=false", "OPERATOR_NAMESPACE=" + cluster.Namespace, "KUBECONFIG=" + l.KubeconfigPath()}
		return child.StartWith(env, "maintenance-operator", log, l.options.MaintenanceOperator, "--metrics-bind-address=0", "--health-probe-bind-address=0")
	}
	if err := l.maintenance.start(); err != nil {
		return err
	}
	l.running.Go(func() { l.maintenance.keep(ctx, func() bool { return false }, l.say) })
	return nil
}
