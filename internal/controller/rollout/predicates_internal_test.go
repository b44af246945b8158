package rollout

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Who has a node, and whether people let it be updated, decides about its job.
func TestNodeThatSomebodyTakes(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Unschedulable: true}}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		passes bool
	}{
		"nothing": {func(*corev1.Node) {}, false},
		"a note":  {func(n *corev1.Node) { n.Annotations = map[string]string{"note": "x"} }, false},
		"a taint": {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "medik8s.io/drain"}} }, true},
		"a person": {func(n *corev1.Node) {
			n.Annotations = map[string]string{v1alpha1.UpdateWhileCordonedAnnotation: "true"}
		}, true},
	} {
		after := n.DeepCopy()
		c.change(after)
		assert.Equal(t, c.passes, nodeChanged.Update(event.UpdateEvent{ObjectOld: n, ObjectNew: after}), name)
	}
}

// Whether a source lists the rollback image of a job depends on what the device is, what it runs and where its firmware comes from.
func TestADeviceThatARollbackImageMayBeForStartsAPass(t *testing.T) {
	device := func(change func(*v1alpha1.NodeDevice)) *v1alpha1.NodeDevice {
		d := &v1alpha1.NodeDevice{
			Spec:   v1alpha1.NodeDeviceSpec{NodeName: "n", Origin: []v1alpha1.Origin{{Kind: v1alpha1.OriginSource, Name: "s"}}},
			Status: v1alpha1.NodeDeviceStatus{Firmware: &v1alpha1.ObservedFirmware{Running: "1"}},
		}
		change(d)
		return d
	}
	for name, c := range map[string]struct {
		change func(*v1alpha1.NodeDevice)
		passes bool
	}{
		"nothing":        {func(*v1alpha1.NodeDevice) {}, false},
		"what it stores": {func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Stored = "2" }, false},
		"the board":      {func(d *v1alpha1.NodeDevice) { d.Status.BoardID = "MT_1" }, true},
		"what it runs":   {func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Running = "2" }, true},
		"first read":     {func(d *v1alpha1.NodeDevice) { d.Status.Firmware = nil }, true},
		"its source":     {func(d *v1alpha1.NodeDevice) { d.Spec.Origin[0].Name = "other" }, true},
		"no source":      {func(d *v1alpha1.NodeDevice) { d.Spec.Origin = nil }, true},
	} {
		e := event.UpdateEvent{ObjectOld: device(func(*v1alpha1.NodeDevice) {}), ObjectNew: device(c.change)}
		assert.Equal(t, c.passes, deviceChanged.Update(e), name)
	}
}
