package windowtest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	controller "github.com/nodefirmware/node-firmware-operator/internal/controller/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/drain"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/node/drainrequest"
	"github.com/nodefirmware/node-firmware-operator/internal/node/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/nodemaintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	standin "github.com/nodefirmware/node-firmware-operator/internal/testing/lab/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/windowtest"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// nodeMaintenance is a world with the window that asks a maintenance-operator.
func nodeMaintenance(env *apitest.Env) windowtest.World {
	return windowtest.World{Client: env.Client, Window: func() maintenance.Window {
		return &nodemaintenance.Node{Client: env.Client, Namespace: apitest.Namespace, NodeName: windowtest.NodeName}
	}}
}

// TestContractWithTheStandInOfTheLab proves R001-21.
func TestContractWithTheStandInOfTheLab(t *testing.T) {
	windowtest.Run(t, func(t *testing.T) windowtest.World {
		env := apitest.New(t)
		w := nodeMaintenance(env)
		var op *standin.Operator
		w.Restart = func() {
			var err error
			op, err = standin.New(env.Config, apitest.Namespace)
			require.NoError(t, err)
		}
		w.Restart()
		w.Step = func(ctx context.Context) error { return op.Step(ctx) }
		return w
	})
}

// TestContractWithTheOperatorThatDrains proves R001-20, R001-21.
func TestContractWithTheOperatorThatDrains(t *testing.T) {
	windowtest.Run(t, func(t *testing.T) windowtest.World {
		env := apitest.New(t)
		require.NoError(t, env.Client.Create(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: windowtest.NodeName}}))
		admitted(t, env)
		access := rest.CopyConfig(env.Config)
		access.QPS = -1 // as in the operator
		pods, err := kubernetes.NewForConfig(access)
		require.NoError(t, err)
		r := controller.New(env.Client, pods, drain.Options{Force: true, DeleteEmptyDir: true})
		return windowtest.World{
			Client: env.Client,
			Window: func() maintenance.Window {
				return &drainrequest.Window{Client: env.Client, NodeName: windowtest.NodeName}
			},
			Step: func(ctx context.Context) error {
				_, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: windowtest.NodeName}})
				return err
			},
		}
	})
}

// admitted makes an admitted job of the node.
func admitted(t *testing.T, env *apitest.Env) {
	t.Helper()
	job := &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: v1alpha1.FirmwareJobSpec{NodeName: windowtest.NodeName, Type: v1alpha1.JobTypeScan},
	}
	require.NoError(t, env.Client.Create(t.Context(), job))
	_, err := fieldset.ApplyAdmission(t.Context(), env.Client, job, job.ResourceVersion, []metav1.Condition{{
		Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAdmitted, LastTransitionTime: metav1.Now(),
	}})
	require.NoError(t, err)
}
