package template

import (
	"fmt"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

const between = "22.40.1000"

// R002-13, R002-65: the paths of the source reach the device through a real API server, which may keep their lists
// in its own order, and are written once.
func TestUpgradePathsReachTheDevice(t *testing.T) {
	f := newFleet(t)
	f.node("a", map[string]string{"pool": "gpu"})
	s := f.source("s")
	paths := []v1alpha1.UpgradePath{
		{To: v1, From: []string{"22.36.1010", running, "22.35.1012"}, Via: between}, {To: between, Below: "22.35.1012"},
		{To: v1, From: []string{"22.38.1900", "22.38.1002"}}, {To: v2, From: []string{running}},
	}
	f.edit(s, func() { s.Spec.UpgradePaths = paths })
	f.ready(s, imageFor(board, v1, 1), imageFor(board, between, 2))
	a := f.discover("a", board, running)
	f.template("t", "gpu", v1, "s")
	f.startOperator()
	d := f.awaitVersion(a, v1, "t")
	assert.Equal(t, []v1alpha1.UpgradeStep{{UpgradePath: paths[0], Digest: digest(2)}, {UpgradePath: paths[1]}, {UpgradePath: paths[2]}}, d.Spec.Firmware.Path)
	f.awaitReady("t", v1alpha1.ReasonProgressing, status.InProgressStatus)
	before := f.writes.firmware.Load()

	f.discover("a", board, between)
	f.discover("a", board, v1)
	f.awaitReady("t", v1alpha1.ReasonSucceeded, status.CurrentStatus)
	f.stopOperator()
	f.startOperator()
	f.edit(s, func() { s.Spec.UpgradePaths = paths[:2] })
	f.ready(s, imageFor(board, v1, 1), imageFor(board, between, 2))
	f.awaitDevice(a, func(c *assert.CollectT, d *v1alpha1.NodeDevice) { assert.Len(c, d.Spec.Firmware.Path, 2) })
	f.awaitWrites(before+1, &f.writes.firmware, "one write for the change: neither what runs nor a new operator is a reason to write")
}

// R002-66: while the paths cannot be followed the device has no image to flash, and says why.
func TestPathsThatContradictBlock(t *testing.T) {
	f := newFleet(t)
	f.node("a", map[string]string{"pool": "gpu"})
	s := f.source("s")
	f.edit(s, func() {
		s.Spec.UpgradePaths = []v1alpha1.UpgradePath{{To: v1, From: []string{running}, Via: between}, {To: v1, From: []string{running}, Via: v2}}
	})
	images := []v1alpha1.StoredImage{imageFor(board, v1, 1), imageFor(board, between, 2)}
	f.ready(s, images...)
	a := f.discover("a", board, running)
	f.template("t", "gpu", v1, "s")
	f.startOperator()
	d := f.awaitCondition(a, v1alpha1.ConditionBlocked, v1alpha1.ReasonInvalidSpec)
	message := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionBlocked).Message
	assert.Contains(t, message, "via "+between)
	assert.Contains(t, message, "via "+v2)
	f.awaitDevice(a, func(c *assert.CollectT, d *v1alpha1.NodeDevice) {
		if assert.NotNil(c, d.Spec.Firmware) {
			assert.Empty(c, d.Spec.Firmware.Digest)
		}
	})
	got := f.awaitReady("t", v1alpha1.ReasonInvalidSpec, status.FailedStatus)
	assert.Equal(t, int32(1), got.Status.Devices.Blocked)

	f.edit(s, func() { s.Spec.UpgradePaths = s.Spec.UpgradePaths[:1] })
	f.ready(s, images...)
	d = f.awaitCondition(a, v1alpha1.ConditionBlocked, "")
	require.Len(t, d.Spec.Firmware.Path, 1)
	assert.Equal(t, digest(2), d.Spec.Firmware.Path[0].Digest)
	assert.Equal(t, digest(1), d.Spec.Firmware.Digest)
	f.ready(s, imageFor(board, v1, 1))
	d = f.awaitCondition(a, v1alpha1.ConditionBlocked, v1alpha1.ReasonImageNotFound)
	assert.Contains(t, meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionBlocked).Message, between)
}

// R002-26: a quarantined image blocks the devices of its model on every node, and lifting that lets them go on.
func TestQuarantineBlocksUntilLift(t *testing.T) {
	f := newFleet(t)
	f.node("a", map[string]string{"pool": "gpu"})
	s := f.source("s", imageFor(board, v1, 1))
	a := f.discover("a", board, running)
	current := f.discover("a", "MT_0000000540", v1)
	f.ready(s, imageFor(board, v1, 1), imageFor("MT_0000000540", v1, 1))
	f.template("t", "gpu", v1, "s")
	f.startOperator()
	f.awaitReady("t", v1alpha1.ReasonProgressing, status.InProgressStatus)

	q := &v1alpha1.FirmwareQuarantine{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.QuarantineName(digest(1), v1alpha1.AnyModel)},
		Spec:       v1alpha1.FirmwareQuarantineSpec{Digest: digest(1), Model: v1alpha1.AnyModel},
	}
	require.NoError(t, f.Client.Create(t.Context(), q))
	q.Status = v1alpha1.FirmwareQuarantineStatus{ObservedGeneration: 1, Scope: v1alpha1.QuarantinePolicies, Reports: []v1alpha1.QuarantineReport{{
		Job: "b-1", Node: "b", Policy: v1alpha1.DefaultRolloutPolicy, Message: "port 1 lost its link", Time: metav1.Now(), State: v1alpha1.ReportCounted,
	}}}
	require.NoError(t, f.Client.Status().Update(t.Context(), q))
	d := f.awaitCondition(a, v1alpha1.ConditionBlocked, v1alpha1.ReasonQuarantined)
	message := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionBlocked).Message
	for _, part := range []string{"node b", "job b-1", "port 1 lost its link", "kubectl patch fwq"} {
		assert.Contains(t, message, part)
	}
	got := f.awaitReady("t", v1alpha1.ReasonQuarantined, status.FailedStatus)
	assert.Equal(t, int32(1), got.Status.Devices.Blocked)
	assert.Equal(t, int32(1), got.Status.Devices.UpToDate, "what runs the version already is left alone")
	assert.Nil(t, meta.FindStatusCondition(f.device(current).Status.Conditions, v1alpha1.ConditionBlocked))
	f.awaitWarning("NodeDevice", a, v1alpha1.ReasonQuarantined)

	before := q.DeepCopy()
	q.Spec.State = v1alpha1.QuarantineLifted
	require.NoError(t, f.Client.Patch(t.Context(), q, client.MergeFrom(before)))
	f.awaitCondition(a, v1alpha1.ConditionBlocked, "")
	f.awaitReady("t", v1alpha1.ReasonProgressing, status.InProgressStatus)
}

// What a device runs on its way costs no write of a device, however many hops and edges there are.
func TestAHopCostsNoWrite(t *testing.T) {
	s := newStore(t)
	s.seed(scaleTemplates * devicesPerNode)
	for _, source := range s.sources {
		source.Spec.UpgradePaths = []v1alpha1.UpgradePath{{To: v1, From: []string{running}, Via: between}, {To: v1, From: []string{"22.38.1002"}}}
		for i := range rulesPerTemplate {
			source.Status.Images = append(source.Status.Images, imageFor(fmt.Sprintf("BOARD-%d", i), between, 10+i))
		}
	}
	s.list()
	s.drain(t)
	require.Equal(t, len(s.devices), s.writes(), "each device is written once")
	for i, version := range []string{between, v1, running} {
		s.putDevice(nicName(0), func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Running = version })
		s.drain(t)
		assert.Equal(t, len(s.devices), s.writes(), "change %d", i)
	}
}
