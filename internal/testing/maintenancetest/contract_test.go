package maintenancetest_test

import (
	"context"
	"testing"

	mo "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	controller "github.com/nodefirmware/node-firmware-operator/internal/controller/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/drain"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance/nodemaintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/drainrequest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	standin "github.com/nodefirmware/node-firmware-operator/internal/testing/lab/maintenance"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// nodeMaintenance is a world with the window that asks a maintenance-operator.
func nodeMaintenance(t *testing.T, env *apitest.Env, sees sight) World {
	was := &maintenance.Cordon{}
	return World{
		Client: env.Client, Was: was,
		Window: func() maintenance.Window {
			return &nodemaintenance.Node{
				Client: sees(env.Client), Namespace: apitest.Namespace, NodeName: NodeName, Was: func() (maintenance.Cordon, error) { return *was, nil },
			}
		},
		Force: func() {
			o := &mo.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Namespace: apitest.Namespace, Name: nodemaintenance.Name(NodeName)}}
			require.NoError(t, env.Client.Delete(t.Context(), o))
			require.NoError(t, client.IgnoreNotFound(env.Client.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
		},
	}
}

// TestContractWithLabStandIn proves R001-21.
func TestContractWithLabStandIn(t *testing.T) {
	Run(t, func(t *testing.T) World { return standing(t, apitest.New(t), seeing) })
}

// standing is a world with the stand-in of the lab.
func standing(t *testing.T, env *apitest.Env, sees sight) World {
	w := nodeMaintenance(t, env, sees)
	var op *standin.Operator
	w.Restart = func() {
		var err error
		op, err = standin.New(env.Config)
		require.NoError(t, err)
	}
	w.Restart()
	w.Step = func(ctx context.Context) error { return op.Step(ctx) }
	return w
}

// TestContractWithOwnDrain proves R001-20, R001-21.
func TestContractWithOwnDrain(t *testing.T) {
	Run(t, draining)
}

// draining is a world in which the operator drains.
func draining(t *testing.T) World { return drainingBy(t, seeing) }

func drainingBy(t *testing.T, sees sight) World {
	env := apitest.New(t)
	require.NoError(t, env.Client.Create(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: NodeName}}))
	admitted(t, env)
	access := rest.CopyConfig(env.Config)
	access.QPS = -1 // as in the operator
	pods, err := kubernetes.NewForConfig(access)
	require.NoError(t, err)
	r := controller.New(sees(env.Client), pods, drain.Options{Force: true, DeleteEmptyDir: true})
	return World{
		Client: env.Client,
		Window: func() maintenance.Window {
			return &drainrequest.Window{Client: sees(env.Client), NodeName: NodeName}
		},
		Step: func(ctx context.Context) error {
			_, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: NodeName}})
			return err
		},
	}
}

// A person who uncordons the node and cordons it again has it cordoned at the end. The operator sees the Node in between.
func TestANodeThatAPersonCordonedAgainStaysCordoned(t *testing.T) {
	w := draining(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: NodeName}}
	require.NoError(t, w.Client.Create(t.Context(), node))
	window := w.Window()
	settle := func() maintenance.State {
		for range 5 {
			require.NoError(t, w.Step(t.Context()))
		}
		require.NoError(t, w.Client.Get(t.Context(), client.ObjectKeyFromObject(node), node))
		state, err := window.State(t.Context())
		require.NoError(t, err)
		return state
	}
	cordon := func(unschedulable bool) {
		before := node.DeepCopy()
		node.Spec.Unschedulable = unschedulable
		require.NoError(t, w.Client.Patch(t.Context(), node, client.MergeFrom(before), client.FieldOwner("kubectl-cordon")))
	}
	require.NoError(t, window.Schedule(t.Context()))
	require.Equal(t, step.MaintenanceReady, settle().Phase)
	cordon(false)
	assert.Equal(t, step.MaintenanceBroken, settle().Phase)
	assert.NotContains(t, node.Annotations, v1alpha1.CordonedAnnotation)
	cordon(true)
	require.NoError(t, window.Release(t.Context()))
	state := settle()
	assert.Equal(t, step.MaintenanceNone, state.Phase)
	assert.Contains(t, state.Message, "somebody else cordoned it")
	assert.True(t, node.Spec.Unschedulable)

	cordon(false)
	require.NoError(t, window.Schedule(t.Context()))
	require.Equal(t, step.MaintenanceReady, settle().Phase)
	require.NoError(t, window.Release(t.Context()))
	assert.Equal(t, step.MaintenanceNone, settle().Phase)
	assert.False(t, node.Spec.Unschedulable, "its own cordon goes")
}

// admitted makes an admitted job of the node.
func admitted(t *testing.T, env *apitest.Env) {
	t.Helper()
	job := &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: v1alpha1.FirmwareJobSpec{NodeName: NodeName, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{{Name: "verify-firmware"}}}},
	}
	require.NoError(t, env.Client.Create(t.Context(), job))
	_, err := fieldset.ApplyAdmission(t.Context(), env.Client, job, job.ResourceVersion, []metav1.Condition{{
		Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAdmitted, LastTransitionTime: metav1.Now(),
	}})
	require.NoError(t, err)
}
