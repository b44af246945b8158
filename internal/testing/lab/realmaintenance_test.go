package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
)

// A whole update under the real maintenance-operator: it waits for a pod that must not be evicted, and the job names the pod. It
// takes some minutes. R001-21
func TestTheRealMaintenanceOperatorDrainsForTheDaemon(t *testing.T) {
	const variable = "MAINTENANCE_OPERATOR"
	binary := os.Getenv(variable)
	if binary == "" {
		t.Skip("no maintenance-operator: set " + variable + " to its manager (make maintenance-contract builds it and runs this test)")
	}
	l := startLabWith(t, Options{Nodes: 1, MaintenanceOperator: binary})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("maintenance-operator:\n%s", tailOf(filepath.Join(l.options.Dir, "maintenance-operator.log")))
		}
	})
	s := l.scene(t, 0)
	labels := map[string]string{"app": "db"}
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}
	require.NoError(t, l.admin.Create(t.Context(), pdb))
	db := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db-0", Labels: labels},
		Spec:       corev1.PodSpec{NodeName: s.node.Name, Containers: []corev1.Container{{Name: "main", Image: "simulated"}}},
	}
	require.NoError(t, l.admin.Create(t.Context(), db))
	db.Status.Phase = corev1.PodRunning
	require.NoError(t, l.admin.Status().Update(t.Context(), db))

	list := s.want("cx7")
	eventually(t, "the job names the pod that it waits for", func() bool {
		j := s.job()
		if j == nil {
			return false
		}
		ready := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && strings.Contains(ready.Message, "default/db-0")
	})
	assert.True(t, s.kubeNode().Spec.Unschedulable)
	assert.Zero(t, s.writes(), "nothing is written before the node is drained")
	require.NoError(t, l.admin.Delete(t.Context(), pdb))
	eventually(t, "the write begins", func() bool { return s.writes() > 0 })
	require.Error(t, l.admin.Get(t.Context(), client.ObjectKeyFromObject(db), db), "the node is drained")
	s.requireDone(list, 1)
	said, err := os.ReadFile(filepath.Join(l.options.Dir, "maintenance-operator.log"))
	require.NoError(t, err)
	assert.Contains(t, string(said), s.node.Name, "it was the real one that did so")
}

func TestAMaintenanceOperatorThatNobodyAsksIsRefused(t *testing.T) {
	_, err := Up(t.Context(), Options{Dir: t.TempDir(), MaintenanceOperator: "/manager", Maintenance: config.MaintenanceDrain})
	require.ErrorContains(t, err, "with --maintenance=Drain no maintenance-operator is asked")
}
