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

// with lists an image of version N.0 as quarantined for a model.
func with(s *v1alpha1.FirmwareSource, n int, model string) *v1alpha1.FirmwareSource {
	s.Status.Quarantine = append(s.Status.Quarantine, v1alpha1.QuarantinedImage{
		Digest: digest(n), Model: model, Version: string(rune('0'+n)) + ".0", Since: metav1.NewTime(base),
		NodeName: "gpu-017", Job: "gpu-017-1a2b3c4d", Message: "link of port 1 is down and was up before",
	})
	return s
}

// R002-26: a bad image is flashed to no device of its model until a person lifts that.
func TestQuarantineBlocksTheModel(t *testing.T) {
	const model = "15b3:101d"
	all := func() *v1alpha1.FirmwareSource { return newSource(metav1.ConditionTrue, "1.0", "2.0", "3.0") }
	s := newStage(t)
	s.template("t", "2.0")
	require.Empty(t, s.blocked())

	s.ix.SetSource(with(all(), 2, "15b3:101f"))
	assert.Empty(t, s.blocked(), "another model")
	s.ix.SetSource(with(all(), 3, model))
	assert.Empty(t, s.blocked(), "another image")
	s.ix.SetSource(with(all(), 2, v1alpha1.AnyModel))
	assert.Equal(t, v1alpha1.ReasonQuarantined, s.blocked(), "every model")

	assert.Equal(t, []string{"d"}, s.ix.SetSource(with(all(), 2, model)).Devices)
	d, _ := s.ix.Decision("d")
	require.NotNil(t, d.Blocked)
	assert.Equal(t, v1alpha1.ReasonQuarantined, d.Blocked.Reason)
	for _, part := range []string{"gpu-017", "gpu-017-1a2b3c4d", "link of port 1 is down", "spec.liftQuarantine", `"s"`} {
		assert.Contains(t, d.Blocked.Message, part)
	}
	tally, _ := s.ix.Tally("t")
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

	lifted := with(all(), 2, model)
	lifted.Spec.LiftQuarantine = "now"
	s.ix.SetSource(lifted)
	assert.Empty(t, s.blocked(), "a person lifted it")
	s.ix.SetSource(with(all(), 2, model))
	assert.Equal(t, v1alpha1.ReasonQuarantined, s.blocked())
	s.ix.SetSource(all())
	assert.Empty(t, s.blocked(), "the entry is gone")
}

// A quarantined version in between is on the way of those alone that have to go there.
func TestQuarantineOfAHopBlocksThoseWhoTakeIt(t *testing.T) {
	s := newStage(t)
	hops := paths{via("3.0", "2.0", "1.0")}
	s.ix.SetSource(with(restricted(metav1.ConditionTrue, hops, "2.0", "3.0"), 2, "15b3:101d"))
	s.template("t", "3.0")
	d, _ := s.ix.Decision("d")
	require.NotNil(t, d.Blocked)
	assert.Equal(t, v1alpha1.ReasonQuarantined, d.Blocked.Reason)
	assert.Equal(t, "2.0", d.Blocked.Version)
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.Firmware.Running = "1.5" })
	assert.Empty(t, s.blocked())
	s.ix.SetSource(with(restricted(metav1.ConditionTrue, hops, "2.0", "3.0"), 3, "15b3:101d"))
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.Firmware.Running = "1.0" })
	assert.Equal(t, v1alpha1.ReasonQuarantined, s.blocked(), "no hop towards a version that is quarantined")
}

func TestQuarantineLeavesADeviceThatRunsTheVersionAlone(t *testing.T) {
	s := newStage(t)
	s.template("t", "2.0")
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.Firmware.Running = "2.0" })
	s.ix.SetSource(with(newSource(metav1.ConditionTrue, "2.0"), 2, "15b3:101d"))
	assert.Empty(t, s.blocked())
	tally, _ := s.ix.Tally("t")
	assert.Equal(t, int32(1), tally.Applied)
}

// due is what package plan would do now.
func (s *stage) due() plan.Decision {
	return plan.Decide(desired.Of(s.device.Spec.Firmware, desired.Retry(s.firmware)), Facts(s.device))
}

// R002-11: what a person went back to by hand and pinned is flashed once, and no template takes it away again.
func TestPinToAnOlderVersionIsHonoured(t *testing.T) {
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
func TestMovedImageChangesNothingThatRuns(t *testing.T) {
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
func TestQuarantineOfALaterHopBlocksToo(t *testing.T) {
	s := newStage(t)
	hops := paths{via("4.0", "3.0", "1.0", "2.0"), via("3.0", "2.0", "1.0")}
	s.ix.SetSource(with(restricted(metav1.ConditionTrue, hops, "2.0", "3.0", "4.0"), 3, "15b3:101d"))
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
	tally, _ := s.ix.Tally("t")
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
	quarantined := with(newSource(metav1.ConditionTrue, "1.0", "2.0", "3.0"), 2, "15b3:101d")
	for name, events := range map[string][]func(*stage){
		"failed first":      {func(s *stage) { s.status(failed) }, func(s *stage) { s.ix.SetSource(quarantined) }},
		"quarantined first": {func(s *stage) { s.ix.SetSource(quarantined) }, func(s *stage) { s.status(failed) }},
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
			tally, _ := s.ix.Tally("t")
			assert.Equal(t, int32(1), tally.Failed)
			assert.Zero(t, tally.Blocked)
		})
	}
}

// An image that one node reported is blocked on the nodes of its RolloutPolicy, and on no other.
func TestQuarantineOfAPolicyBlocksItsNodesOnly(t *testing.T) {
	const model = "15b3:101d"
	bad := with(newSource(metav1.ConditionTrue, "1.0", "2.0"), 2, model)
	bad.Status.Quarantine[0].Scope, bad.Status.Quarantine[0].Policies = v1alpha1.QuarantinePolicies, []string{"gpu"}
	bad.Status.Quarantine[0].Reports = []v1alpha1.QuarantineReport{{Job: "gpu-017-1a2b3c4d", NodeName: "gpu-017", Policy: "gpu"}}
	s := newStage(t)
	s.template("t", "2.0")
	s.ix.SetSource(bad)
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
