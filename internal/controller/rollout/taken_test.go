package rollout_test

import (
	"errors"
	"testing"

	mo "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// edit changes a Node as a person or another product does.
func (w *world) edit(node, patch string) {
	w.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	require.NoError(w, w.Patch(w.Context(), n, client.RawPatch(types.MergePatchType, []byte(patch))))
}

const cordon, uncordon = `{"spec":{"unschedulable":true}}`, `{"spec":{"unschedulable":null}}`

// A node that somebody else has is not taken from them. One that a shared maintenance or the product itself cordons is nobody else's.
func TestOthersCordonWaits(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(9), nil))
	w.nodes("n1", "n2", "n3", "n4", "n5")
	for _, n := range []string{"n1", "n2", "n3", "n4"} {
		w.edit(n, cordon)
	}
	w.create(&mo.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Namespace: apitest.Namespace, Name: "gpu-n2"}, Spec: mo.NodeMaintenanceSpec{RequestorID: "other.example.com", NodeName: "n2", Cordon: true}})
	w.edit("n3", `{"metadata":{"annotations":{"`+v1alpha1.UpdateWhileCordonedAnnotation+`":"true"}}}`)
	w.edit("n4", `{"metadata":{"annotations":{"`+v1alpha1.CordonedAnnotation+`":"an id"}}}`)
	w.edit("n5", `{"metadata":{"annotations":{"weave.works/kured-reboot-in-progress":"now"}}}`)
	for _, n := range []string{"1", "2", "3", "4", "5"} {
		w.queue("job-"+n, "n"+n)
	}
	o := w.operator()
	o.pass()
	assert.Equal(t, []string{"job-2", "job-3", "job-4"}, w.admitted())
	assert.Equal(t, v1alpha1.ReasonNodeNotReady, w.reason("job-1"))
	assert.Contains(t, w.message("job-1"), "Node n1 is cordoned, and not by this product. To have it updated, run: kubectl uncordon n1")
	assert.Equal(t, v1alpha1.ReasonNodeNotReady, w.reason("job-5"))
	assert.Contains(t, w.message("job-5"), "Somebody else has node n5: kured (annotation weave.works/kured-reboot-in-progress).")

	w.edit("n1", uncordon)
	w.edit("n5", `{"metadata":{"annotations":null}}`)
	o.pass()
	assert.Equal(t, []string{"job-1", "job-2", "job-3", "job-4", "job-5"}, w.admitted())
	w.requireStatus(o, "default", status.InProgressStatus)
}

// An operator of NVIDIA upgrades a driver in a maintenance that is shared, and says on the Node how far it is. That says nothing of kured.
func TestUpgradeInASharedMaintenanceIsNobodyElses(t *testing.T) {
	const upgrade = `{"metadata":{"labels":{"nvidia.com/gpu-driver-upgrade-state":"pod-restart-required"}},"spec":{"unschedulable":true}}`
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(9), nil))
	w.nodes("n1", "n2", "n3")
	for _, n := range []string{"1", "2", "3"} {
		w.edit("n"+n, upgrade)
		w.queue("job-"+n, "n"+n)
	}
	for _, n := range []string{"n1", "n3"} {
		w.create(&mo.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Namespace: apitest.Namespace, Name: "gpu-" + n}, Spec: mo.NodeMaintenanceSpec{RequestorID: "nvidia.gpu.operator", NodeName: n, Cordon: true}})
	}
	w.edit("n3", `{"metadata":{"annotations":{"weave.works/kured-reboot-in-progress":"now"}}}`)
	o := w.operator()
	o.pass()
	assert.Equal(t, []string{"job-1"}, w.admitted())
	assert.Contains(t, w.message("job-2"), "the driver upgrade of an NVIDIA operator (label nvidia.com/gpu-driver-upgrade-state=pod-restart-required)")
	assert.Contains(t, w.message("job-3"), "kured (annotation weave.works/kured-reboot-in-progress)")
	w.requireStatus(o, "default", status.InProgressStatus)
}

// Where nobody can say whose a cordon is, its node is left alone, and the others go on.
func TestUnknownCordonKeepsNoOtherNodeWaiting(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(9), nil))
	w.nodes("n1", "n2")
	w.edit("n1", cordon)
	w.create(&mo.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Namespace: apitest.Namespace, Name: "gpu-n1"}, Spec: mo.NodeMaintenanceSpec{RequestorID: "other.example.com", NodeName: "n1", Cordon: true}})
	w.queue("job-1", "n1")
	w.queue("job-2", "n2")
	o := w.operator()
	o.direct.refuses = errors.New("the server is overloaded")
	_, err := o.Reconcile(t.Context(), ctrl.Request{})
	require.ErrorContains(t, err, "the server is overloaded", "it is logged, and tried again")
	assert.Equal(t, []string{"job-2"}, w.admitted())
	assert.Equal(t, v1alpha1.ReasonNodeNotReady, w.reason("job-1"))
	assert.Contains(t, w.message("job-1"), "Node n1 is cordoned, and it is not known whether a NodeMaintenance does that: they cannot be read")

	o.direct.refuses = nil
	o.pass()
	assert.Equal(t, []string{"job-1", "job-2"}, w.admitted())
	w.requireStatus(o, "default", status.InProgressStatus)
}

// The cache may show the cordon of the product's own maintenance for a while after it has ended.
func TestStaleCordonIsReadAgain(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(1), nil))
	w.nodes("n1")
	w.edit("n1", cordon)
	w.queue("job", "n1")
	o := w.operator()
	require.NoError(t, o.view.freeze(t.Context()))
	w.edit("n1", uncordon)
	o.pass()
	assert.Equal(t, []string{"job"}, w.admitted())
	w.requireStatus(o, "default", status.InProgressStatus)
}
