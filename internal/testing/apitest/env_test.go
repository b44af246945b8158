package apitest_test

import (
	"testing"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// TestNewStartsEmpty: what one test leaves behind, the next does not see, finalizers or not.
func TestNewStartsEmpty(t *testing.T) {
	t.Run("first", func(t *testing.T) {
		env := apitest.New(t)
		for _, o := range leftovers() {
			require.NoError(t, env.Client.Create(t.Context(), o))
		}
		require.NoError(t, env.Client.Delete(t.Context(), &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "maintenanceoperatorconfigs.maintenance.nvidia.com"},
		}))
	})
	t.Run("second", func(t *testing.T) {
		env := apitest.New(t)
		for _, o := range leftovers() {
			err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
			require.NoError(t, client.IgnoreNotFound(err))
			require.Error(t, err, "%T is still there", o)
		}
		require.NoError(t, env.Client.List(t.Context(), &maintenancev1alpha1.MaintenanceOperatorConfigList{}))
	})
}

func leftovers() []client.Object {
	held := metav1.ObjectMeta{Name: "left", Finalizers: []string{"example.com/held"}}
	inNamespace := metav1.ObjectMeta{Name: "left", Namespace: apitest.Namespace, Finalizers: []string{"example.com/held"}}
	return []client.Object{
		&corev1.Node{ObjectMeta: held},
		&v1alpha1.NodeFirmware{ObjectMeta: held},
		&v1alpha1.NodeDevice{ObjectMeta: held, Spec: v1alpha1.NodeDeviceSpec{NodeName: "left"}},
		&maintenancev1alpha1.NodeMaintenance{
			ObjectMeta: inNamespace,
			Spec:       maintenancev1alpha1.NodeMaintenanceSpec{RequestorID: "example.com", NodeName: "left"},
		},
		&corev1.ConfigMap{ObjectMeta: inNamespace},
	}
}

// TestSelectsMaintenanceByNode: maintenances can be watched by node, as those of a real cluster can.
func TestSelectsMaintenanceByNode(t *testing.T) {
	env := apitest.New(t)
	for _, node := range []string{"node-1", "node-2"} {
		require.NoError(t, env.Client.Create(t.Context(), &maintenancev1alpha1.NodeMaintenance{
			ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: apitest.Namespace},
			Spec:       maintenancev1alpha1.NodeMaintenanceSpec{RequestorID: "nodefirmware.io", NodeName: node},
		}))
	}
	for field, want := range map[string]int{"spec.nodeName=node-1": 1, "spec.requestorID=nodefirmware.io": 2} {
		var list maintenancev1alpha1.NodeMaintenanceList
		require.NoError(t, env.Client.List(t.Context(), &list, &client.ListOptions{Raw: &metav1.ListOptions{FieldSelector: field}}))
		assert.Len(t, list.Items, want, field)
	}
}

func TestTable(t *testing.T) {
	env := apitest.New(t)
	require.NoError(t, env.Client.Create(t.Context(), &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}))
	kind := v1alpha1.GroupVersion.WithKind("RolloutPolicy")
	assert.Equal(t, `NAME   STATE    NODES   BUDGET   UNAVAILABLE   QUEUED   WAITS   READY   STATUS   AGE
gpu    Active                                                                    <age>
`, env.Table(t, kind, apitest.ColumnsDefault))
}

func TestRequireStatus(t *testing.T) {
	policy := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Generation: 2}}
	policy.Status.ObservedGeneration = 1
	apitest.RequireStatus(t, policy, status.InProgressStatus)
	policy.Status.ObservedGeneration = 2
	policy.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	apitest.RequireStatus(t, policy, status.CurrentStatus)
	policy.Status.Conditions = append(policy.Status.Conditions,
		metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue})
	apitest.RequireStatus(t, policy, status.FailedStatus)
}
