package neighbour_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/neighbour"
)

func node(change func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-17", Labels: map[string]string{}, Annotations: map[string]string{}}}
	change(n)
	return n
}

func taint(key string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}

func label(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

// Who has a Node is read from what they leave on it, and from nothing that only looks like it.
func TestSigns(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   string
	}{
		"nobody":       {func(*corev1.Node) {}, ""},
		"kured":        {func(n *corev1.Node) { n.Annotations["weave.works/kured-reboot-in-progress"] = "2026-11-23T03:00:00Z" }, "kured (annotation weave.works/kured-reboot-in-progress)"},
		"kured before": {func(n *corev1.Node) { n.Annotations["weave.works/kured-most-recent-reboot-needed"] = "x" }, ""},
		"medik8s":      {taint("medik8s.io/drain"), "medik8s (taint medik8s.io/drain)"},
		"remediation":  {taint("remediation.medik8s.io/fence-agents-remediation"), "medik8s (taint remediation.medik8s.io/fence-agents-remediation)"},
		"a GPU driver": {label("nvidia.com/gpu-driver-upgrade-state", "drain-required"),
			"the driver upgrade of an NVIDIA operator (label nvidia.com/gpu-driver-upgrade-state=drain-required)"},
		"a network driver": {label("nvidia.com/ofed-driver-upgrade-state", "pod-restart-required"),
			"the driver upgrade of an NVIDIA operator (label nvidia.com/ofed-driver-upgrade-state=pod-restart-required)"},
		"an upgrade that is due":  {label("nvidia.com/gpu-driver-upgrade-state", "upgrade-required"), ""},
		"one that is over":        {label("nvidia.com/gpu-driver-upgrade-state", "upgrade-done"), ""},
		"one that failed":         {label("nvidia.com/gpu-driver-upgrade-state", "upgrade-failed"), ""},
		"one in a shared":         {label("nvidia.com/gpu-driver-upgrade-state", "node-maintenance-required"), ""},
		"scaled down":             {taint("ToBeDeletedByClusterAutoscaler"), "the cluster-autoscaler (taint ToBeDeletedByClusterAutoscaler)"},
		"may be scaled down":      {taint("DeletionCandidateOfClusterAutoscaler"), ""},
		"disrupted":               {taint("karpenter.sh/disrupted"), "Karpenter (taint karpenter.sh/disrupted)"},
		"declared out of service": {taint("node.kubernetes.io/out-of-service"), "who declared it out of service (taint node.kubernetes.io/out-of-service)"},
		"off":                     {taint("node.cloudprovider.kubernetes.io/shutdown"), "the cloud provider (taint node.cloudprovider.kubernetes.io/shutdown)"},
		"a rule of readiness":     {taint("readiness.k8s.io/firmware"), ""},
		"a cordon":                {func(n *corev1.Node) { n.Spec.Unschedulable = true }, ""},
		"two drivers": {func(n *corev1.Node) {
			n.Labels["nvidia.com/ofed-driver-upgrade-state"], n.Labels["nvidia.com/gpu-driver-upgrade-state"] = "drain-required", "cordon-required"
		}, "the driver upgrade of an NVIDIA operator (label nvidia.com/gpu-driver-upgrade-state=cordon-required), " +
			"the driver upgrade of an NVIDIA operator (label nvidia.com/ofed-driver-upgrade-state=drain-required)"},
	} {
		t.Run(name, func(t *testing.T) {
			n := node(c.change)
			assert.Equal(t, c.want, neighbour.Names(neighbour.Signs(n)))
			assert.Equal(t, c.want != "", neighbour.Has(n) != "")
			neighbour.Trim(n)
			assert.Equal(t, c.want, neighbour.Names(neighbour.Signs(n)), "a cache keeps it")
		})
	}
}

func TestTexts(t *testing.T) {
	n := node(taint("medik8s.io/drain"))
	assert.Equal(t, "Somebody else has node gpu-17: medik8s (taint medik8s.io/drain). Nothing is done to it until that ends.", neighbour.Has(n))
	assert.Empty(t, neighbour.Cordoned(n))
	n.Spec.Unschedulable = true
	assert.Equal(t, "Node gpu-17 is cordoned, and not by this product. To have it updated, run: kubectl uncordon gpu-17  To have it updated as it is: "+
		"kubectl annotate node gpu-17 nodefirmware.io/update-while-cordoned=true", neighbour.Cordoned(n))
	n.Annotations[v1alpha1.UpdateWhileCordonedAnnotation] = "yes"
	assert.NotEmpty(t, neighbour.Cordoned(n))
	n.Annotations[v1alpha1.UpdateWhileCordonedAnnotation] = "true"
	assert.Empty(t, neighbour.Cordoned(n))
	assert.NotEmpty(t, neighbour.Has(n), "it is about a plain cordon alone")
}

func TestCordonedBy(t *testing.T) {
	n := node(func(n *corev1.Node) {
		n.ManagedFields = []metav1.ManagedFieldsEntry{
			{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{}}}`)},
			{Manager: "kubectl-cordon", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:unschedulable":{}}}`)},
			{Manager: "gitops", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:unschedulable":{}}}`)},
			{Manager: "odd", FieldsV1: metav1.NewFieldsV1(`{"f:spec":[]}`)}, {Manager: "none"},
		}
	})
	assert.Empty(t, neighbour.CordonedBy(n), "it is not cordoned")
	n.Spec.Unschedulable = true
	assert.Equal(t, []string{"gitops", "kubectl-cordon"}, neighbour.CordonedBy(n))
}
