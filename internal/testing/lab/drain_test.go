package lab

import (
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

// No maintenance-operator runs, and the operator has the rights of its component alone. R001-20, R001-21
func TestOperatorDrainsForDaemons(t *testing.T) {
	t.Parallel()
	l := startLabWith(t, Options{Nodes: 1, Maintenance: config.MaintenanceDrain})
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

	release := s.hold("write", 0)
	list := s.want("cx7")
	eventually(t, "the job names the pod that it waits for", func() bool {
		j := s.job()
		if j == nil {
			return false
		}
		ready := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil {
			return false
		}
		said := ready.Message
		return strings.Contains(said, "default/db-0") && strings.Contains(said, "not evicted")
	})
	assert.True(t, s.kubeNode().Spec.Unschedulable)
	assert.NotEmpty(t, s.kubeNode().Annotations[v1alpha1.CordonedAnnotation])
	assert.Zero(t, s.writes(), "nothing is written before the node is drained")

	l.KillOperator()
	require.NoError(t, l.StartOperator())
	require.NoError(t, l.admin.Delete(t.Context(), pdb))
	eventually(t, "the write begins", func() bool { return s.running("flash") && s.writes() > 0 })
	require.Error(t, l.admin.Get(t.Context(), client.ObjectKeyFromObject(db), db), "the node is drained")
	l.KillOperator()
	require.NoError(t, l.StartOperator())
	release()
	s.requireDone(list, 1)
	assert.Empty(t, s.kubeNode().Annotations[v1alpha1.CordonedAnnotation])
}
