package planner

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/due"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/cacheview"
)

const connectX6 = "15b3:101d"

// adapter is a device of the model connectX6.
func adapter(name string, version int) *v1alpha1.NodeDevice {
	d := device(name, version)
	d.Status.Class, d.Status.PCIID, d.Status.BoardID = v1alpha1.ClassNIC, "15b3:101d", "MT_1"
	return d
}

// elsewhere is a job on another node that found image n bad on the model connectX6.
func (w *world) elsewhere(n int) {
	w.Helper()
	finish := metav1.NewTime(w.clock)
	j := &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("elsewhere-%d", n), UID: types.UID(fmt.Sprint("elsewhere-", n))},
		Spec: v1alpha1.FirmwareJobSpec{
			NodeName: "gpu-2", Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{
				{Name: "gpu-2-nic", Model: connectX6, Version: fmt.Sprint(n), Digest: digest(n)},
			}},
		},
	}
	require.NoError(w, w.Create(w.Context(), j))
	j.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAdmitted}}
	j.Status.Blamed = []v1alpha1.BlamedDevice{{Device: "gpu-2-nic"}}
	j.Status.Steps = []v1alpha1.JobStep{{Name: "health", State: v1alpha1.StepFailed, CompletionTime: &finish}}
	require.NoError(w, w.Status().Update(w.Context(), j))
	w.clock = w.clock.Add(time.Second)
}

// source creates a source that is ready and holds these images.
func (w *world) source(name string, images ...v1alpha1.StoredImage) {
	w.Helper()
	require.NoError(w, w.Create(w.Context(), &v1alpha1.FirmwareSource{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: v1alpha1.FirmwareSourceStatus{Images: images, Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded},
		}},
	}))
}

// image is one of version v with content n for the board MT_1.
func image(v, n int) v1alpha1.StoredImage {
	return v1alpha1.StoredImage{Version: fmt.Sprint(v), Class: v1alpha1.ClassNIC, BoardIDs: []string{"MT_1"}, Digest: digest(n)}
}

// record writes the quarantines, as their own reconciler does.
func (w *world) record() {
	w.Helper()
	for range 2 { // the creation starts another pass
		r := quarantine.New(cacheview.Client{Client: w.Client}, events.NewFakeRecorder(100), func() time.Time { return w.clock })
		_, err := r.Reconcile(w.Context(), ctrl.Request{})
		require.NoError(w, err)
	}
}

// lift has a person lift every quarantine.
func (w *world) lift() {
	w.Helper()
	w.record()
	var all v1alpha1.FirmwareQuarantineList
	require.NoError(w, w.List(w.Context(), &all))
	require.NotEmpty(w, all.Items)
	for _, q := range all.Items {
		q.Spec.State = v1alpha1.QuarantineLifted
		q.Generation += 2 // to Active and back
		require.NoError(w, w.Update(w.Context(), &q))
	}
	w.clock = w.clock.Add(time.Second)
}

// byHand creates a job as a person does.
func (w *world) byHand(name string, kind v1alpha1.JobType) *v1alpha1.FirmwareJob {
	w.Helper()
	j := &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(w.clock)},
		Spec:       v1alpha1.FirmwareJobSpec{NodeName: node, Task: v1alpha1.JobTask{Type: kind}},
	}
	require.NoError(w, w.Create(w.Context(), j))
	return j
}

// mine are the jobs of this node.
func (w *world) mine() (out []v1alpha1.FirmwareJob) {
	w.Helper()
	for _, j := range w.jobs() {
		if j.Spec.NodeName == node {
			out = append(out, j)
		}
	}
	return out
}

// B.3: an image that failed on another node is planned on none of the model, and what is queued with it goes.
func TestAnImageThatFailedElsewhereIsNotPlanned(t *testing.T) {
	w := newWorld(t, adapter("nic", 2), device("disk", 3))
	w.edit("disk", func(d *v1alpha1.NodeDevice) { d.Status.PCIID = "144d:a80a" })
	w.source("s", image(2, 2))
	w.settle()
	require.Equal(t, "disk=3 nic=2", devices(w.queued()))
	w.elsewhere(2)
	w.reconcile()
	assert.Empty(t, w.mine(), "what is queued with it goes at once")
	w.settle()
	require.Len(t, w.mine(), 1)
	assert.Equal(t, "disk=3", devices(&w.mine()[0]), "the sibling goes on")
	w.lift()
	w.settle()
	w.settle()
	require.Len(t, w.mine(), 1)
	assert.Equal(t, "disk=3 nic=2", devices(&w.mine()[0]))
}

func TestAQueuedJobWithABadImageGoesThoughSomebodyElsesJobWaits(t *testing.T) {
	w := newWorld(t, adapter("nic", 2))
	w.source("s", image(2, 2))
	w.settle()
	steps := w.byHand("steps", v1alpha1.JobTypeSteps)
	w.reconcile()
	require.Len(t, w.mine(), 2)
	w.elsewhere(2)
	w.settle()
	require.Len(t, w.mine(), 1)
	assert.Equal(t, "steps", w.mine()[0].Name)
	w.lift()
	w.settle()
	assert.Len(t, w.mine(), 1, "steps are waited for")
	w.set(steps, nil, v1alpha1.ConditionComplete)
	w.settle()
	assert.Len(t, w.mine(), 2)
}

func TestAQueuedJobThatIsNoLongerDueGoesThoughSomebodyElsesJobWaits(t *testing.T) {
	w := newWorld(t, adapter("nic", 2))
	w.settle()
	w.byHand("steps", v1alpha1.JobTypeSteps)
	w.settle()
	require.Len(t, w.mine(), 2, "it keeps its place")
	w.assign("nic", 1)
	w.settle()
	assert.Equal(t, "steps", w.queued().Name)
	w.requireQuiet()
}

// R002-26, I5: what was rolled back is not flashed again until a person lifts and asks; the other devices go on.
func TestDoesNotReplanRolledBack(t *testing.T) {
	w := newWorld(t, adapter("nic", 2), device("disk", 3))
	w.source("s", image(2, 2))
	w.settle()
	j := w.queued()
	finish := metav1.NewTime(w.clock)
	j.Status.Blamed = []v1alpha1.BlamedDevice{{Device: node + "-nic"}}
	w.set(j, []v1alpha1.JobStep{{Name: "health", State: v1alpha1.StepFailed, CompletionTime: &finish}},
		v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionRolledBack)
	w.settle()
	require.Equal(t, "disk=3", devices(w.queued()), "the health of the node failed, and only the adapter is to blame")
	w.edit("disk", func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Running = "3" })
	w.set(w.queued(), nil, v1alpha1.ConditionAdmitted, v1alpha1.ConditionComplete)
	w.settle()
	require.Nil(t, w.queued())
	w.retry()
	w.settle()
	assert.Nil(t, w.queued(), "a retry does not lift the quarantine")
	w.lift()
	w.settle()
	assert.Equal(t, "nic=2", devices(w.queued()))
	w.requireQuiet()
}

func TestALiftIsForTheFleetAndARetryForTheNodeThatFailed(t *testing.T) {
	w := newWorld(t, adapter("nic", 2))
	w.source("s", image(2, 2))
	w.settle()
	j := w.queued()
	j.Status.Blamed = []v1alpha1.BlamedDevice{{Device: node + "-nic"}}
	w.set(j, nil, v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionRolledBack)
	w.lift()
	w.settle()
	assert.Nil(t, w.queued())
	w.retry()
	w.settle()
	assert.Equal(t, "nic=2", devices(w.queued()))
	w.requireQuiet()
}

// over is a step of a path: to after version n where one of these runs.
func over(to string, n int, from ...string) v1alpha1.UpgradeStep {
	return v1alpha1.UpgradeStep{UpgradePath: v1alpha1.UpgradePath{To: to, From: from, Via: fmt.Sprint(n)}, Digest: digest(n)}
}

// R002-65: the versions on the way are flashed one after the other, each in a job of its own.
func TestFlashesHopsOneByOne(t *testing.T) {
	d := adapter("nic", 4)
	d.Spec.Firmware.Path = []v1alpha1.UpgradeStep{over("4", 2, "1"), over("4", 3, "2")}
	w := newWorld(t, d)
	for _, version := range []string{"2", "3", "4"} {
		w.settle()
		j := w.queued()
		require.NotNil(t, j)
		require.Equal(t, "nic="+version, devices(j))
		assert.Equal(t, v1alpha1.Digest(fmt.Sprintf("sha256:%064s", version)), j.Spec.Task.Devices[0].Digest)
		w.requireQuiet()
		w.edit("nic", func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Running, d.Status.Firmware.Stored = version, version })
		w.set(j, nil, v1alpha1.ConditionAdmitted, v1alpha1.ConditionComplete)
	}
	w.settle()
	assert.Nil(t, w.queued())
	w.requireQuiet()
}

func TestAFailedHopIsNotRepeatedAndItsNodeStaysHeld(t *testing.T) {
	d := adapter("nic", 4)
	d.Spec.Firmware.Path = []v1alpha1.UpgradeStep{over("4", 2, "1")}
	w := newWorld(t, d)
	w.settle()
	w.edit("nic", func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Running, d.Status.Firmware.Stored = "2", "2" })
	w.set(w.queued(), []v1alpha1.JobStep{{Name: "health", State: v1alpha1.StepFailed}},
		v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	w.settle()
	assert.Nil(t, w.queued(), "the next version is not flashed to a node that the one before broke")
	w.retry()
	w.settle()
	assert.Equal(t, "nic=4", devices(w.queued()))
	w.requireQuiet()
}

func TestAVersionOnTheWayToABadOneIsNotFlashed(t *testing.T) {
	d := adapter("nic", 4)
	d.Spec.Firmware.Path = []v1alpha1.UpgradeStep{over("4", 2, "1")}
	w := newWorld(t, d)
	w.elsewhere(4)
	w.settle()
	assert.Empty(t, w.mine())
}

func unhealthySince(at time.Time) func(*v1alpha1.NodeDevice) {
	return func(d *v1alpha1.NodeDevice) {
		d.Status.Failure = &v1alpha1.DeviceFailure{Reason: v1alpha1.ReasonUnhealthy, Time: metav1.NewTime(at), Job: "before"}
	}
}

// R002-12, R002-53: an unhealthy device gets neither the same nor a new target until a person clears it.
func TestSkipsUnhealthyDevice(t *testing.T) {
	w := newWorld(t, adapter("nic", 2), device("disk", 3))
	w.edit("nic", unhealthySince(w.clock))
	w.settle()
	require.Equal(t, "disk=3", devices(w.queued()))
	w.assign("nic", 5)
	w.settle()
	assert.Equal(t, "disk=3", devices(w.queued()), "a new target is refused too")
	w.restart()
	w.settle()
	assert.Equal(t, "disk=3", devices(w.queued()))
	w.retry()
	w.settle()
	w.settle()
	assert.Equal(t, "disk=3 nic=5", devices(w.queued()))
	w.requireQuiet()
}

// R002-53: on a held node another desired firmware is no way around it.
func TestAHeldNodeWithAnUnhealthyDeviceGetsNoJob(t *testing.T) {
	w := newWorld(t, adapter("nic", 2), device("disk", 3))
	w.settle()
	w.set(w.queued(), []v1alpha1.JobStep{{Name: "verify", Device: node + "-nic", State: v1alpha1.StepFailed}},
		v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	w.edit("nic", unhealthySince(w.clock))
	w.assign("nic", 5)
	w.assign("disk", 6)
	w.settle()
	assert.Nil(t, w.queued(), "the drive would return the node to service")
	w.clock = w.clock.Add(time.Second)
	w.retry()
	w.settle()
	assert.Equal(t, "disk=6 nic=5", devices(w.queued()))
	w.requireQuiet()
}

// R003-25, I9: steps that failed have no desired firmware, so no change of it and no due update takes their node over.
func TestNodeHeldByStepsNeedsPerson(t *testing.T) {
	w := newWorld(t, adapter("nic", 0))
	steps := w.byHand("steps", v1alpha1.JobTypeSteps)
	w.assign("nic", 2)
	w.set(steps, []v1alpha1.JobStep{{Name: "reset-bios-settings", State: v1alpha1.StepFailed}},
		v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	w.settle()
	assert.Nil(t, w.queued(), "the update would return the node to service")
	w.assign("nic", 3)
	w.settle()
	assert.Nil(t, w.queued())
	w.retry()
	w.settle()
	assert.Equal(t, "nic=3", devices(w.queued()))
	w.requireQuiet()
}

// I7, I9: a device that did not come back took its object with it, and nobody has changed its desired firmware.
func TestAHeldNodeWhoseDeviceIsGoneWaitsForAPerson(t *testing.T) {
	w := newWorld(t, adapter("nic", 2), device("disk", 3))
	w.settle()
	w.set(w.queued(), []v1alpha1.JobStep{{Name: "verify", Device: node + "-nic", State: v1alpha1.StepFailed}},
		v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	require.NoError(t, w.Delete(t.Context(), &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: node + "-nic"}}))
	w.assign("disk", 6)
	w.settle()
	assert.Nil(t, w.queued(), "the drive would return the node to service without its adapter")
	w.retry()
	w.settle()
	assert.Equal(t, "disk=6", devices(w.queued()))
	w.requireQuiet()
}

// I9: the daemon knows that the node is held though the job that tells why was deleted.
func TestAHeldNodeWhoseJobWasDeletedWaitsForAPerson(t *testing.T) {
	w := newWorld(t, adapter("nic", 2))
	require.NoError(t, w.Create(t.Context(), &v1alpha1.NodeFirmware{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Status:     v1alpha1.NodeFirmwareStatus{HeldBy: "gone"},
	}))
	w.settle()
	assert.Nil(t, w.queued(), "it would return the node to service")
	w.retry()
	w.settle()
	assert.Equal(t, "nic=2", devices(w.queued()))
	w.requireQuiet()
}

func TestAHeldNodeIsNotRetriedWhileTheImageThatFailedIsQuarantined(t *testing.T) {
	setup := func(t *testing.T) *world {
		w := newWorld(t, adapter("nic", 2), device("disk", 3))
		w.source("s", image(2, 2))
		w.settle()
		j := w.queued()
		j.Status.Blamed = []v1alpha1.BlamedDevice{{Device: node + "-nic"}}
		w.set(j, []v1alpha1.JobStep{{Name: "restore", Device: node + "-nic", Part: v1alpha1.PartRollback, State: v1alpha1.StepFailed}},
			v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
		w.retry()
		w.settle()
		require.Nil(t, w.queued(), "the drive alone would return the node with an adapter nobody judged")
		return w
	}
	t.Run("it is lifted", func(t *testing.T) {
		w := setup(t)
		w.lift()
		w.settle()
		assert.Equal(t, "disk=3 nic=2", devices(w.queued()))
		w.requireQuiet()
	})
	t.Run("the desired firmware changes", func(t *testing.T) {
		w := setup(t)
		w.assign("nic", 5)
		w.settle()
		assert.Equal(t, "disk=3 nic=5", devices(w.queued()))
		w.requireQuiet()
	})
}

// R002-11: a person pins an older version. It is flashed once, and nothing takes it back.
func TestFlashesOlderPinOnce(t *testing.T) {
	d := adapter("nic", 2)
	d.Status.Firmware.Running, d.Status.Firmware.Stored, d.Status.Firmware.VersionFormat = "2", "2", v1alpha1.VersionFormatDotted
	w := newWorld(t, d)
	w.settle()
	require.Nil(t, w.queued())
	w.edit("nic", func(d *v1alpha1.NodeDevice) {
		setDesired(d, 1)
	})
	w.settle()
	require.Nil(t, w.queued(), "nothing is downgraded unless that is allowed")
	w.edit("nic", func(d *v1alpha1.NodeDevice) {
		d.Spec.Firmware.Downgrade = v1alpha1.DowngradeAllow
		d.Spec.Origin[0] = v1alpha1.Origin{Kind: v1alpha1.OriginPin, Name: node, Rule: "mine"}
	})
	w.settle()
	j := w.queued()
	require.Equal(t, "nic=1", devices(j))
	w.edit("nic", func(d *v1alpha1.NodeDevice) {
		d.Status.Firmware.Running, d.Status.Firmware.Stored = "1", "1"
		d.Status.Applied = &v1alpha1.AppliedFirmware{Digest: digest(1)}
	})
	w.set(j, nil, v1alpha1.ConditionAdmitted, v1alpha1.ConditionComplete)
	w.restart()
	w.retry()
	w.settle()
	assert.Nil(t, w.queued())
	w.requireQuiet()
}

func TestUpdateNamesRunningImage(t *testing.T) {
	unrestricted := image(1, 9)
	unrestricted.BoardIDs = nil
	otherBoard := image(1, 8)
	otherBoard.BoardIDs = []string{"MT_2"}
	for name, c := range map[string]struct {
		setup func(*world)
		want  v1alpha1.Digest
	}{
		"none":                        {func(*world) {}, ""},
		"in any source":               {func(w *world) { w.source("old", image(1, 1), image(2, 2)) }, digest(1)},
		"the same in two":             {func(w *world) { w.source("a", image(1, 1)); w.source("b", image(1, 1)) }, digest(1)},
		"two different ones":          {func(w *world) { w.source("a", image(1, 1)); w.source("b", image(1, 7)) }, ""},
		"for another board":           {func(w *world) { w.source("a", otherBoard) }, ""},
		"for anything, elsewhere":     {func(w *world) { w.source("a", unrestricted) }, ""},
		"for anything, in its source": {func(w *world) { w.source("s", unrestricted) }, digest(9)},
		"of two the one that was flashed": {func(w *world) {
			w.source("a", image(1, 1), image(1, 7))
			w.edit("nic", func(d *v1alpha1.NodeDevice) {
				d.Status.Applied = &v1alpha1.AppliedFirmware{Digest: digest(7)}
			})
		}, digest(7)},
		"quarantined": {func(w *world) { w.source("a", image(1, 1)); w.elsewhere(1) }, ""},
		"in a source that is not ready": {func(w *world) {
			require.NoError(w, w.Create(w.Context(), &v1alpha1.FirmwareSource{
				ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: v1alpha1.FirmwareSourceStatus{Images: []v1alpha1.StoredImage{image(1, 1)}},
			}))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, adapter("nic", 2))
			c.setup(w)
			w.settle()
			require.NotEmpty(t, w.mine())
			assert.Equal(t, c.want, w.mine()[0].Spec.Task.Devices[0].RollbackDigest)
		})
	}
}

func TestAJobHasTheWriteProtectionOfTheNodesPolicy(t *testing.T) {
	p := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	w := newWorld(t, adapter("nic", 2), p)
	w.settle()
	first := w.queued()
	assert.Empty(t, first.Spec.Task.Require)
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(p), p))
	before := p.DeepCopy()
	p.Spec.Require = v1alpha1.Requirements{v1alpha1.RequireWriteProtection}
	assert.True(t, policyChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: p}), "its nodes are planned anew")
	require.NoError(t, w.Update(t.Context(), p))
	w.reconcile()
	assert.Empty(t, w.jobs(), "the job that might write without protection goes at once")
	w.settle()
	assert.Equal(t, v1alpha1.Requirements{v1alpha1.RequireWriteProtection}, w.queued().Spec.Task.Require)
	assert.NotEqual(t, first.Name, w.queued().Name)
	w.requireQuiet()
}

func TestJobTakesPolicysRollback(t *testing.T) {
	policy := func(name, pool string, require ...v1alpha1.Requirement) *v1alpha1.RolloutPolicy {
		return &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.RolloutPolicySpec{
			Require: require, NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}},
		}}
	}
	w := newWorld(t, adapter("nic", 2), policy("gpu", "gpu", v1alpha1.RequireRollback), policy("default", "gpu"))
	w.settle()
	first := w.queued()
	assert.Empty(t, first.Spec.Task.Require)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(n), n))
	n.Labels = map[string]string{"pool": "gpu"}
	require.NoError(t, w.Update(t.Context(), n))
	w.reconcile()
	assert.Empty(t, w.jobs(), "the job that might not be undone goes at once")
	w.settle()
	assert.Equal(t, v1alpha1.Requirements{v1alpha1.RequireRollback}, w.queued().Spec.Task.Require)
	assert.NotEqual(t, first.Name, w.queued().Name)
	w.requireQuiet()
}

func TestJobTakesPolicysSoak(t *testing.T) {
	p := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: v1alpha1.RolloutPolicySpec{
		HealthyFor: "5m",
	}}
	w := newWorld(t, adapter("nic", 2), p)
	w.settle()
	assert.Equal(t, 5*time.Minute, w.queued().Spec.Task.HealthyFor.Duration(0))
}

// A job is kept while no quarantine lists the bad image that it reports.
func TestTheOnlyReportIsKept(t *testing.T) {
	w := newWorld(t, adapter("nic", 2))
	w.settle()
	j := w.queued()
	j.Status.Blamed = []v1alpha1.BlamedDevice{{Device: node + "-nic"}}
	w.set(j, nil, v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionRolledBack)
	for i := range 12 {
		w.clock = w.clock.Add(time.Second)
		w.set(w.byHand(fmt.Sprintf("update-%02d", i), v1alpha1.JobTypeUpdate), nil, v1alpha1.ConditionComplete)
	}
	w.settle()
	require.Len(t, w.jobs(), due.MaxHistory+1)
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(j), j))
	w.record()
	w.settle()
	assert.Len(t, w.jobs(), due.MaxHistory)
	w.requireQuiet()
}

// A Node that cannot be read is not one that is gone: its report would count for the pool of another policy.
func TestAPoolThatCannotBeReadIsNotGuessed(t *testing.T) {
	w := newWorld(t, adapter("nic", 2))
	w.settle()
	j := w.queued()
	j.Spec.NodeName = "other"
	require.NoError(t, w.Update(t.Context(), j))
	j.Status.Blamed = []v1alpha1.BlamedDevice{{Device: node + "-nic"}}
	w.set(j, nil, v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionRolledBack)
	down := errors.New("the cache is down")
	w.race(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, is := o.(*corev1.Node); is && key.Name == "other" {
			return down
		}
		return c.Get(ctx, key, o, opts...)
	}})
	_, err := w.planner.gather(t.Context(), node)
	require.ErrorIs(t, err, down)
	w.restart()
	_, err = w.planner.gather(t.Context(), node)
	require.NoError(t, err, "a Node that is gone has no labels")
}

func TestQuarantineWakesItsNodes(t *testing.T) {
	hop, other := adapter("nic", 4), device("disk", 3)
	hop.Spec.Firmware.Path = []v1alpha1.UpgradeStep{over(hop.Spec.Firmware.Version, 2, "1")}
	other.Spec.NodeName = "gpu-2"
	w := newWorld(t, hop, other)
	for n, want := range map[int]string{2: "[/gpu-1]", 3: "[/gpu-2]", 4: "[/gpu-1]", 5: "[]"} {
		q := &v1alpha1.FirmwareQuarantine{Spec: v1alpha1.FirmwareQuarantineSpec{Digest: digest(n)}}
		assert.Equal(t, want, fmt.Sprint(w.planner.toTakers(t.Context(), q)), "image %d", n)
	}
	assert.Len(t, w.planner.toEveryNode(t.Context(), nil), 1)
	assert.False(t, meta.IsStatusConditionTrue(hop.Status.Conditions, v1alpha1.ConditionBlocked))
}
