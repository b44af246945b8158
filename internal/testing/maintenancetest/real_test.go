package maintenancetest_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// binaryVariable names the manager of a real maintenance-operator, which hack/maintenanceoperator builds.
const binaryVariable = "MAINTENANCE_OPERATOR"

// TestContractWithTheMaintenanceOperator proves R001-21. It takes several minutes, because the maintenance-operator looks every ten
// seconds.
func TestContractWithTheMaintenanceOperator(t *testing.T) {
	binary := os.Getenv(binaryVariable)
	if binary == "" {
		t.Skip("no maintenance-operator: set " + binaryVariable + " to its manager (make maintenance-contract builds it and runs this test)")
	}
	Run(t, func(t *testing.T) World {
		env := apitest.New(t)
		w := nodeMaintenance(t, env, seeing)
		var running *exec.Cmd
		stop := func() {
			if running != nil {
				_ = running.Process.Kill()
				_ = running.Wait()
			}
		}
		w.Restart = func() {
			stop()
			log, err := os.Create(filepath.Join(t.TempDir(), "maintenance-operator.log"))
			require.NoError(t, err)
			defer log.Close()
			running = exec.CommandContext(context.WithoutCancel(t.Context()), binary, "--metrics-bind-address=0", "--health-probe-bind-address=0")
			running.Env = []string{"ENABLE_WEBHOOKS=false", "KUBECONFIG=" + env.ControlPlane.KubeconfigPath()}
			running.Stdout, running.Stderr = log, log
			require.NoError(t, running.Start())
		}
		t.Cleanup(stop)
		force := w.Force
		w.Force = func() { // it would end what is deleted, and return the node, before the finalizer is gone
			stop()
			force()
			w.Restart()
		}
		w.Restart()
		return w
	})
}
