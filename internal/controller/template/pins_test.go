package template

import (
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// R000-10: a node's pin beats every template, also one that was written wrong: it is said at the pin what came nearest, and no template
// flashes what it may mean.
func TestUnmatchedPin(t *testing.T) {
	f := newFleet(t)
	f.source("s", imageFor(board, v1, 1))
	f.node("a", map[string]string{"pool": "gpu"})
	pins := pinFor("a", "101d")
	pins.Spec.Pins[0].Selector.Vendor = "NVIDIA"
	f.create(pins)
	pins.Status.LastScanTime = &metav1.Time{Time: time.Now()}
	require.NoError(t, f.Client.Status().Update(t.Context(), pins))
	a := f.discover("a", board, running)
	f.template("t", "gpu", v1, "s")
	f.startOperator()

	found := func(is bool) *metav1.Condition {
		var out *metav1.Condition
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			o := &v1alpha1.NodeFirmware{}
			require.NoError(c, f.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, o))
			out = meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionPinsUnmatched)
			require.Equal(c, is, out != nil)
		}, time.Minute, 20*time.Millisecond)
		return out
	}
	f.awaitCondition(a, v1alpha1.ConditionBlocked, v1alpha1.ReasonNoMatch)
	c := found(true)
	assert.Contains(t, c.Message, `Pin "pin" matches no device: `+a+" is closest, but differs in vendor (the device reports 15b3")
	assert.Nil(t, f.device(a).Spec.Firmware)
	f.awaitWarning("NodeFirmware", "a", v1alpha1.ReasonNoMatch)
	got := f.awaitReady("t", v1alpha1.ReasonNoMatch, status.FailedStatus)
	assert.Equal(t, v1alpha1.TemplateDevices{Matched: 1, OutOfDate: 1, Blocked: 1}, got.Status.Devices)
	assert.Empty(t, got.Status.AssignedDevices)
	ready := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady)
	assert.Contains(t, ready.Message, `1 device is blocked (first: `+a+`): The pin "pin" of NodeFirmware "a" matches no device`)

	f.edit(pins, func() { pins.Spec.Pins[0].Selector.Vendor = "15b3" })
	f.awaitVersion(a, v1, "a")
	found(false)
	f.edit(pins, func() { pins.Spec.Pins[0].Selector.Vendor = "NVIDIA" })
	f.awaitUnassigned(a)
	found(true)
	f.edit(pins, func() { pins.Spec.Pins = nil })
	f.awaitVersion(a, v1, "t")
	found(false)
}

// A pin by serial number does not follow its card: both nodes are told where the card is.
func TestBothNodesAreToldWhereAPinnedCardIs(t *testing.T) {
	f := newFleet(t)
	f.source("s", imageFor(board, v1, 1))
	f.node("a", nil)
	f.node("b", nil)
	pins := pinFor("a", "101d")
	pins.Spec.Pins[0].Selector.SerialNumbers = []string{"MT9"}
	f.create(pins)
	pins.Status.LastScanTime = &metav1.Time{Time: time.Now()}
	require.NoError(t, f.Client.Status().Update(t.Context(), pins))
	f.discover("a", board, running)
	moved := f.discover("b", board, running, func(s *v1alpha1.NodeDeviceStatus) { s.SerialNumber = "MT9" })
	f.startOperator()

	require.EventuallyWithT(t, func(c *assert.CollectT) {
		o := &v1alpha1.NodeFirmware{}
		require.NoError(c, f.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, o))
		said := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionPinsUnmatched)
		require.NotNil(c, said)
		assert.Contains(c, said.Message, "is in node b now, as device "+moved)
	}, time.Minute, 20*time.Millisecond)
	require.Eventually(t, func() bool { return f.warnings("NodeFirmware", "b", v1alpha1.ReasonNoMatch) > 0 }, time.Minute, 20*time.Millisecond)
}
