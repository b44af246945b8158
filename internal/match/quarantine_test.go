package match

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// bad quarantines the image of version N.0 for a model, on every node.
func bad(n int, model string) *v1alpha1.FirmwareQuarantine {
	d := digest(n)
	return &v1alpha1.FirmwareQuarantine{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.QuarantineName(d, model), UID: "1", Generation: 1},
		Spec:       v1alpha1.FirmwareQuarantineSpec{Digest: d, Model: model, State: v1alpha1.QuarantineActive},
		Status: v1alpha1.FirmwareQuarantineStatus{ObservedGeneration: 1, Scope: v1alpha1.QuarantineFleet, Reports: []v1alpha1.QuarantineReport{
			{Job: "gpu-017-1a2b3c4d", Node: "gpu-017", Policy: "gpu", Message: "link of port 1 is down and was up before", State: v1alpha1.ReportCounted},
			{Job: "gpu-018-1a2b3c4d", Node: "gpu-018", Policy: "gpu", State: v1alpha1.ReportCounted},
		}},
	}
}

// quarantine replaces the quarantines by one.
func (s *stage) quarantine(q *v1alpha1.FirmwareQuarantine) []string {
	for name := range s.ix.quarantines {
		s.ix.DeleteQuarantine(name)
	}
	return s.ix.SetQuarantine(q).Devices
}

// R002-26: a bad image is flashed to no device of its model until a person lifts that.
func TestQuarantineBlocksTheModel(t *testing.T) {
	const model = "15b3:101d"
	s := newStage(t)
	s.ix.SetSource(newSource(metav1.ConditionTrue, "1.0", "2.0", "3.0"))
	s.template("t", "2.0")
	require.Empty(t, s.blocked())

	s.quarantine(bad(2, "15b3:101f"))
	assert.Empty(t, s.blocked(), "another model")
	s.quarantine(bad(3, model))
	assert.Empty(t, s.blocked(), "another image")
	s.quarantine(bad(2, v1alpha1.AnyModel))
	assert.Equal(t, v1alpha1.ReasonQuarantined, s.blocked(), "every model")

	assert.Equal(t, []string{"d"}, s.quarantine(bad(2, model)))
	assert.Empty(t, s.ix.SetQuarantine(bad(2, model)).Devices, "the same is no news")
	d, _ := s.ix.Decision("d")
	require.NotNil(t, d.Blocked)
	assert.Equal(t, v1alpha1.ReasonQuarantined, d.Blocked.Reason)
	for _, part := range []string{"gpu-017", "gpu-017-1a2b3c4d", "link of port 1 is down", "for model " + model, "kubectl patch fwq " + bad(2, model).Name} {
		assert.Contains(t, d.Blocked.Message, part)
	}
	tally, _ := s.ix.Tally(Ref{v1alpha1.OriginTemplate, "t"})
	assert.Equal(t, int32(1), tally.Blocked)
	assert.Equal(t, int32(1), tally.NotApplied)

	s.template("t", "3.0")
	assert.Empty(t, s.blocked(), "another version is desired")
	s.template("t", "2.0")
	assert.Equal(t, v1alpha1.ReasonQuarantined, s.blocked())
	s.template("t", "2.0", paused)
	assert.Equal(t, v1alpha1.ReasonQuarantined, s.blocked(), "also of a template that is paused")
	s.template("t", "2.0")
	s.pins("2.0")
	assert.Equal(t, v1alpha1.ReasonQuarantined, s.blocked(), "a pin does not lift it")
	s.pins()
	s.ix.DeleteSource("s")
	s.ix.SetSource(newSource(metav1.ConditionTrue, "1.0", "2.0", "3.0"))
	assert.Equal(t, v1alpha1.ReasonQuarantined, s.blocked(), "another source of the image does not lift it")

	lifted := bad(2, model)
	lifted.Generation, lifted.Spec.State = 2, v1alpha1.QuarantineLifted
	s.ix.SetQuarantine(lifted)
	assert.Empty(t, s.blocked(), "a person lifted it")
	confirmed := &v1alpha1.FirmwareQuarantine{Spec: bad(2, model).Spec}
	confirmed.Name, confirmed.Spec.State = lifted.Name, v1alpha1.QuarantineConfirmed
	s.ix.SetQuarantine(confirmed)
	assert.Equal(t, v1alpha1.ReasonQuarantined, s.blocked(), "a person confirmed it")
	s.ix.DeleteQuarantine(lifted.Name)
	assert.Empty(t, s.blocked(), "it is gone")
}

// A quarantined version in between is on the way of those alone that have to go there.
func TestHopQuarantineBlocksTakers(t *testing.T) {
	s := newStage(t)
	hops := paths{via("3.0", "2.0", "1.0")}
	s.ix.SetSource(restricted(metav1.ConditionTrue, hops, "2.0", "3.0"))
	s.quarantine(bad(2, "15b3:101d"))
	s.template("t", "3.0")
	d, _ := s.ix.Decision("d")
	require.NotNil(t, d.Blocked)
	assert.Equal(t, v1alpha1.ReasonQuarantined, d.Blocked.Reason)
	assert.Equal(t, "2.0", d.Blocked.Version)
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.Firmware.Running = "1.5" })
	assert.Empty(t, s.blocked())
	s.quarantine(bad(3, "15b3:101d"))
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.Firmware.Running = "1.0" })
	assert.Equal(t, v1alpha1.ReasonQuarantined, s.blocked(), "no hop towards a version that is quarantined")
}

func TestQuarantineLeavesADeviceThatRunsTheVersionAlone(t *testing.T) {
	s := newStage(t)
	s.template("t", "2.0")
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.Firmware.Running = "2.0" })
	s.ix.SetSource(newSource(metav1.ConditionTrue, "2.0"))
	s.quarantine(bad(2, "15b3:101d"))
	assert.Empty(t, s.blocked())
	tally, _ := s.ix.Tally(Ref{v1alpha1.OriginTemplate, "t"})
	assert.Equal(t, int32(1), tally.Applied)
}

// due is what package plan would do now.
func (s *stage) due() plan.Decision {
	return plan.Decide(desired.Of(s.device.Spec.Firmware, desired.Retry(s.firmware)), Facts(s.device))
}

// R002-11: what a person went back to by hand and pinned is flashed once, and no template takes it away again.
func TestHonoursPinToOlderVersion(t *testing.T) {
	s := newStage(t)
	s.template("t", "3.0")
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.Firmware.Running = "3.0" })
	s.pins("2.0")
	s.allow()
	s.wants("2.0", "n")
	assert.Empty(t, s.blocked())
	require.Equal(t, plan.DueFlash, s.due().Outcome)
	assert.Equal(t, plan.ReasonDowngradeForbidden, func() plan.Reason {
		f := s.device.Spec.Firmware.DeepCopy()
		f.Downgrade = v1alpha1.DowngradeForbid
		return plan.Decide(desired.Of(f, ""), Facts(s.device)).Reason
	}(), "it is a downgrade indeed")
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.Firmware.Running = "2.0" })
	assert.Equal(t, plan.UpToDate, s.due().Outcome)
	s.template("t", "3.0", func(o *v1alpha1.FirmwareTemplate) { o.Spec.Rules[0].Policy = v1alpha1.PolicyApply })
	s.wants("2.0", "n")
	assert.Equal(t, plan.UpToDate, s.due().Outcome, "nothing is flashed again")
}

// R002-75: that a name stands for another image now changes nothing on a device that runs the version, and the image of
// another device is the recorded one until the source has verified the new one.
func TestMovedImageChangesNothing(t *testing.T) {
	s := newStage(t)
	s.template("t", "2.0")
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.Firmware.Running = "2.0" })
	moved := func(ready metav1.ConditionStatus) *v1alpha1.FirmwareSource {
		o := newSource(ready, "2.0")
		o.Status.Images[0].Digest = digest(9)
		return o
	}
	s.ix.SetSource(moved(metav1.ConditionFalse))
	s.act()
	assert.Equal(t, digest(2), s.device.Spec.Firmware.Digest)
	s.ix.SetSource(moved(metav1.ConditionTrue))
	s.act()
	assert.Equal(t, digest(9), s.device.Spec.Firmware.Digest)
	assert.Equal(t, plan.UpToDate, s.due().Outcome)
	assert.Empty(t, s.blocked())
}

// The whole way counts: no device is taken to where it could not go on.
func TestLaterHopsQuarantineBlocks(t *testing.T) {
	s := newStage(t)
	hops := paths{via("4.0", "3.0", "1.0", "2.0"), via("3.0", "2.0", "1.0")}
	s.ix.SetSource(restricted(metav1.ConditionTrue, hops, "2.0", "3.0", "4.0"))
	s.quarantine(bad(3, "15b3:101d"))
	s.template("t", "4.0")
	d, _ := s.ix.Decision("d")
	require.NotNil(t, d.Blocked)
	assert.Equal(t, v1alpha1.ReasonQuarantined, d.Blocked.Reason)
	assert.Equal(t, "3.0", d.Blocked.Version)
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.Firmware.Running = "3.0" })
	assert.Empty(t, s.blocked(), "it has left the bad version behind")
}

// R002-53: whatever firmware is desired, a device that a job left unhealthy gets none until a person clears that.
func TestUnhealthyDeviceIsBlocked(t *testing.T) {
	s := newStage(t)
	s.pins()
	s.template("t", "2.0")
	s.status(func(d *v1alpha1.NodeDeviceStatus) {
		d.Failure = &v1alpha1.DeviceFailure{Time: metav1.NewTime(base), Job: "j"}
	})
	assert.Equal(t, v1alpha1.ReasonDeviceUnhealthy, s.blocked())
	tally, _ := s.ix.Tally(Ref{v1alpha1.OriginTemplate, "t"})
	assert.Equal(t, int32(1), tally.Blocked)
	s.template("t", "3.0")
	assert.Equal(t, v1alpha1.ReasonDeviceUnhealthy, s.blocked(), "another desired version changes nothing")
	s.firmware.Spec.Requests.Retry = "repaired"
	s.pins()
	assert.Empty(t, s.blocked())
}

// The device on which an image failed says that, and the others of its model that the image is quarantined, whichever of
// the two is known first.
func TestFailureOfTheDeviceItselfIsSaidRatherThanTheQuarantine(t *testing.T) {
	failed := func(d *v1alpha1.NodeDeviceStatus) {
		d.Failure = &v1alpha1.DeviceFailure{Digest: digest(2), Time: metav1.NewTime(base)}
	}
	quarantined := bad(2, "15b3:101d")
	for name, events := range map[string][]func(*stage){
		"failed first":      {func(s *stage) { s.status(failed) }, func(s *stage) { s.ix.SetQuarantine(quarantined) }},
		"quarantined first": {func(s *stage) { s.ix.SetQuarantine(quarantined) }, func(s *stage) { s.status(failed) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.template("t", "2.0")
			for _, e := range events {
				e(s)
			}
			assert.Empty(t, s.blocked())
			d, _ := s.ix.Decision("d")
			assert.Equal(t, plan.ReasonUpdateFailed, d.Verdict.Reason)
			tally, _ := s.ix.Tally(Ref{v1alpha1.OriginTemplate, "t"})
			assert.Equal(t, int32(1), tally.Failed)
			assert.Zero(t, tally.Blocked)
		})
	}
}

// An image that one node reported is blocked on the nodes of its RolloutPolicy, and on no other.
func TestQuarantineOfAPolicyBlocksItsNodesOnly(t *testing.T) {
	const model = "15b3:101d"
	bad := bad(2, model)
	bad.Status.Scope, bad.Status.Reports = v1alpha1.QuarantinePolicies, bad.Status.Reports[:1]
	s := newStage(t)
	s.template("t", "2.0")
	s.ix.SetSource(newSource(metav1.ConditionTrue, "1.0", "2.0"))
	s.quarantine(bad)
	assert.Empty(t, s.blocked(), "the node belongs to the policy default")

	policy := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "1", Generation: 1}}
	policy.Spec.NodeSelector = &metav1.LabelSelector{}
	assert.Equal(t, []string{"d"}, s.ix.SetPolicy(policy).Devices)
	assert.Equal(t, v1alpha1.ReasonQuarantined, s.blocked(), "a policy that chooses the node appeared")
	assert.Empty(t, s.ix.SetPolicy(policy).Devices, "the same policy is no news")

	policy = policy.DeepCopy()
	policy.Generation, policy.Spec.NodeSelector.MatchLabels = 2, map[string]string{"rollout": "elsewhere"}
	s.ix.SetPolicy(policy)
	assert.Empty(t, s.blocked(), "it chooses others now")
	s.ix.SetNode("n", map[string]string{"pool": "gpu", "rollout": "elsewhere"})
	assert.Equal(t, v1alpha1.ReasonQuarantined, s.blocked(), "the node was moved to it")
	s.ix.DeletePolicy("gpu")
	assert.Empty(t, s.blocked(), "the policy is gone")
}
