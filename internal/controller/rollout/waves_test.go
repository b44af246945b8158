package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// inWaves makes a default policy with a wave of one canary, which soaks for an hour, one of two nodes, and the rest. Its nodes n0
// to n5 have a queued job each.
func (w *world) inWaves() {
	w.Helper()
	p := newPolicy("default", intstr.FromInt32(6), nil)
	one, three := intstr.FromInt32(1), intstr.FromInt32(3)
	p.Spec.Waves = []v1alpha1.RolloutWave{
		{Name: "canary", Size: &one, Soak: "1h", NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "true"}}},
		{Name: "few", Size: &three},
	}
	w.create(p)
	for i := range 6 {
		name := fmt.Sprintf("n%d", i)
		w.create(newNode(name, map[string]string{"canary": fmt.Sprint(i == 3)}))
		w.queue("j"+name[1:], name)
	}
}

func (w *world) rollout(policy string) v1alpha1.RolloutStatus {
	w.Helper()
	list := w.policy(policy).Status.Rollouts
	require.Len(w, list, 1)
	return list[0]
}

// R000-53: a canary, its soak, then more; each wave opens when every node of the one before is judged.
func TestAnUpdateSpreadsInWaves(t *testing.T) {
	w := newWorld(t)
	w.inWaves()
	o := w.operator()
	o.pass()
	require.Equal(t, []string{"j3"}, w.admitted(), "the canary alone")
	require.Equal(t, v1alpha1.ReasonWaitingForWave, w.reason("j0"))
	require.Contains(t, w.message("j0"), "status.rollouts of rolloutpolicy/default")
	r := w.rollout("default")
	assert.Equal(t, "canary", r.Wave)
	assert.Contains(t, r.Message, "0 of 1 node judged")

	w.complete("j3")
	o.pass()
	require.Empty(t, w.admitted(), "it soaks")
	r = w.rollout("default")
	assert.Contains(t, r.Message, "the next wave opens at 2026-11-21 13:00:00 UTC")
	assert.Equal(t, time.Hour, o.next, "the operator looks again when the soak ends")
	w.requireStatus(o, "default", status.InProgressStatus)

	w.clock = w.clock.Add(time.Hour)
	o.pass()
	require.Equal(t, []string{"j0", "j1"}, w.admitted())
	w.complete("j0")
	w.complete("j1")
	o.pass()
	require.Equal(t, []string{"j2", "j4", "j5"}, w.admitted(), "the rest")
	for _, j := range w.admitted() {
		w.complete(j)
	}
	o.pass()
	r = w.rollout("default")
	assert.Equal(t, "rest", r.Wave)
	assert.Equal(t, int32(6), r.Done+r.Succeeded)
	w.requireStatus(o, "default", status.CurrentStatus)
}

// What the waves know survives the operator, and jobs that are deleted after they were counted.
func TestAnOperatorThatStartsInTheMiddleOfAWaveGoesOnWhereTheOtherWas(t *testing.T) {
	w := newWorld(t)
	w.inWaves()
	w.operator().pass()
	w.complete("j3")
	w.operator().pass()
	w.operator().pass()
	require.Equal(t, int32(1), w.rollout("default").Succeeded, "the verdict counts once")
	w.delete("j3")
	w.clock = w.clock.Add(time.Hour)
	o := w.operator()
	o.pass()
	require.Equal(t, []string{"j0", "j1"}, w.admitted())
	r := w.rollout("default")
	assert.Equal(t, int32(1), r.Done)
	w.requireStatus(o, "default", status.InProgressStatus)
}

// The verdict is counted in the write that gives the place back: an operator that dies before it has counted nothing, and one
// that dies after it has nothing left to count. Of two operators one loses the race.
func TestAVerdictCountsOnceThoughTwoOperatorsSeeIt(t *testing.T) {
	w := newWorld(t)
	w.inWaves()
	w.operator().pass()
	w.complete("j3")
	first, second := w.operator(), w.operator()
	second.direct.afterList = func() { // the other one is faster, between the second's read and its write
		first.view.dies = true // and dies right after the ledger
		_, _ = first.Reconcile(t.Context(), ctrl.Request{})
	}
	second.pass()
	require.Equal(t, int32(1), w.rollout("default").Succeeded)
	require.Empty(t, w.ledger("default"))
	w.requireStatus(second, "default", status.InProgressStatus)
}

// A node that a failed job holds halts its update; nothing is admitted before a person sets spec.requests.resume to another text.
func TestAHeldNodeHaltsItsUpdateUntilAPersonResumes(t *testing.T) {
	w := newWorld(t)
	w.inWaves()
	w.change("default", func(p *v1alpha1.RolloutPolicy) {
		p.Spec.Requests, p.Spec.Halt = &v1alpha1.RolloutRequests{Resume: "yesterday"}, &v1alpha1.RolloutHalt{MaxFailures: ptr.To(intstr.FromInt32(5))}
	})
	o := w.operator()
	o.pass()
	w.hold("j3")
	o.pass()
	w.clock = w.clock.Add(2 * time.Hour)
	o.pass()
	w.operator().pass()
	require.Equal(t, v1alpha1.ReasonRolloutHalted, w.reason("j0"))
	require.Contains(t, w.message("j0"), "To go on with the others: kubectl patch rp default ")
	require.Contains(t, w.message("j0"), "kubectl patch nfw n3 ")
	r := w.rollout("default")
	require.NotNil(t, r.HaltedTime)
	assert.Equal(t, "Job j3 failed and held node n3.", r.Message)
	assert.Equal(t, int32(1), r.Failed, "it counts once though it stays in the ledger")
	assert.Equal(t, v1alpha1.VerdictFailed, w.policy("default").Status.Admitted[0].Verdict)
	assert.Equal(t, 1, countEvents(o, v1alpha1.ReasonRolloutHalted))
	w.requireStatus(o, "default", status.FailedStatus)

	w.change("default", func(p *v1alpha1.RolloutPolicy) { p.Spec.Requests.Resume = "after the cable was replaced" })
	w.create(newNode("n9", map[string]string{"canary": "true"}))
	w.queue("j9", "n9")
	o.pass()
	require.Contains(t, w.admitted(), "j9", "another canary")
	require.NotContains(t, w.admitted(), "j0")
	assert.Equal(t, "after the cable was replaced", w.policy("default").Status.Requests.Resume)
	assert.Nil(t, w.rollout("default").HaltedTime)
	w.requireStatus(o, "default", status.InProgressStatus)
}

// A canary that boots slowly has succeeded and halts its update all the same; a person who resumes is not asked for the next node again.
func TestSlowCanaryHaltsItsUpdateUntilAPersonResumes(t *testing.T) {
	const slow = "the node took 5m20s to boot, 1m20s before the update; two boots in a row were slow"
	w := newWorld(t)
	w.inWaves()
	o := w.operator()
	o.pass()
	w.completeSlowly("j3", slow)
	o.pass()
	w.operator().pass()
	require.Equal(t, v1alpha1.ReasonRolloutHalted, w.reason("j0"))
	require.Contains(t, w.message("j0"), slow)
	require.Contains(t, w.message("j0"), "kubectl patch rp default")
	r := w.rollout("default")
	require.NotNil(t, r.HaltedTime)
	assert.Equal(t, "Job j3 succeeded, but node n3 boots slowly: "+slow+".", r.Message)
	assert.Equal(t, [2]int32{1, 1}, [2]int32{r.Succeeded, r.SlowBoots})
	assert.Equal(t, 1, countEvents(o, v1alpha1.ReasonRolloutHalted))
	w.requireStatus(o, "default", status.FailedStatus)

	w.change("default", func(p *v1alpha1.RolloutPolicy) {
		p.Spec.Requests = &v1alpha1.RolloutRequests{Resume: "as the vendor says"}
	})
	w.clock = w.clock.Add(48 * time.Hour)
	w.operator().pass()
	require.Nil(t, w.rollout("default").HaltedTime)
	require.Contains(t, w.admitted(), "j0")
	w.completeSlowly("j0", slow)
	w.operator().pass()
	assert.Nil(t, w.rollout("default").HaltedTime)
	assert.Equal(t, int32(2), w.rollout("default").SlowBoots)
}

func countEvents(o *operator, reason string) int {
	n := 0
	for len(o.events.Events) > 0 {
		if strings.Contains(<-o.events.Events, " "+reason+" ") {
			n++
		}
	}
	return n
}

// A pin is admitted beside the canary, and both the job and the policy say why.
func TestAPinIsAdmittedBesideTheCanary(t *testing.T) {
	w := newWorld(t)
	w.inWaves()
	w.create(newNode("pinned", nil), &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "pin"}, Spec: v1alpha1.FirmwareJobSpec{
		NodeName: "pinned", Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{
			Name: "pinned-bios", UniqueID: "bios", Origin: v1alpha1.OriginPin, Version: "2", Digest: v1alpha1.Digest(fmt.Sprintf("sha256:%064x", 2)),
		}}},
	}})
	o := w.operator()
	o.pass()
	require.Equal(t, []string{"j3", "pin"}, w.admitted())
	assert.Contains(t, w.message("pin"), "waited for no wave because a pin of the node selects the firmware")
	assert.NotContains(t, w.message("j3"), "pin")
	assert.Contains(t, w.rollout("default").Message, "1 node has a pin and waits for no wave.")
	w.complete("pin")
	o.pass()
	assert.Zero(t, w.rollout("default").Succeeded)
	w.requireStatus(o, "default", status.InProgressStatus)
}

func TestEmptyCanaryWaveHolds(t *testing.T) {
	w := newWorld(t)
	w.inWaves()
	o := w.operator()
	n := newNode("n3", map[string]string{"canary": "false"})
	require.NoError(t, w.Update(t.Context(), n))
	o.pass()
	require.Empty(t, w.admitted())
	assert.Equal(t, v1alpha1.ReasonWaveEmpty, w.ready("default").Reason)
	w.requireStatus(o, "default", status.FailedStatus)
}

func TestAnAbortedPolicyAdmitsNothingAndLetsWhatRunsFinish(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(1), nil))
	w.nodes("n1", "n2")
	w.queue("j1", "n1")
	o := w.operator()
	o.pass()
	w.change("default", func(p *v1alpha1.RolloutPolicy) { p.Spec.State = v1alpha1.RolloutAborted })
	w.queue("j2", "n2")
	o.pass()
	require.Equal(t, []string{"j1"}, w.admitted())
	w.complete("j1")
	o.pass()
	require.Empty(t, w.admitted())
	require.Equal(t, v1alpha1.ReasonAborted, w.reason("j2"))
	w.requireStatus(o, "default", status.CurrentStatus)
}

func TestPriorityComesBeforeAge(t *testing.T) {
	for want, edit := range map[string]func(*world){
		"j1 j2 j3": func(*world) {},
		"j2 j1 j3": func(w *world) { // a person's own priority
			j := w.job("j2")
			j.Spec.Priority = ptr.To[int32](5)
			require.NoError(w, w.Update(w.Context(), j))
		},
		"j1 j3 j2": func(w *world) { // that of the template, where the job has none
			j := w.job("j2")
			j.Spec.Priority = ptr.To[int32](5)
			require.NoError(w, w.Update(w.Context(), j))
			w.create(priorityTemplate(7))
			for _, n := range []string{"n1", "n2", "n3"} {
				w.create(&v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: n + "-bios"}, Spec: v1alpha1.NodeDeviceSpec{
					NodeName: n, Origin: []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: "t", Rule: "r"}},
					Firmware: &v1alpha1.DesiredFirmware{Version: "2", Digest: v1alpha1.Digest(fmt.Sprintf("sha256:%064x", 2)), Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeForbid},
				}})
			}
		},
	} {
		t.Run(want, func(t *testing.T) {
			w := newWorld(t)
			w.create(newPolicy("default", intstr.FromInt32(3), nil))
			w.nodes("n1", "n2", "n3")
			w.queue("j1", "n1")
			w.queue("j2", "n2")
			w.queue("j3", "n3")
			edit(w)
			w.operator().pass()
			require.Equal(t, want, strings.Join(w.ledger("default"), " "))
		})
	}
}

// What fails first goes first, behind what somebody gave a higher priority.
func TestTheNodeWhoseDriveFailsFirstGoesFirst(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(5), nil))
	w.nodes("n1", "n2", "n3", "n4", "n5")
	for i := range 5 {
		w.queue(fmt.Sprintf("j%d", i+1), fmt.Sprintf("n%d", i+1))
	}
	j := w.job("j5")
	j.Spec.Priority = ptr.To[int32](5)
	require.NoError(t, w.Update(t.Context(), j))
	drive := v1alpha1.ComponentKey{Class: v1alpha1.ClassDisk, Vendor: "HP", Model: "EO001920"}
	catalog := &v1alpha1.FirmwareCatalog{ObjectMeta: metav1.ObjectMeta{Name: "hpe.dl380"}, Spec: v1alpha1.FirmwareCatalogSpec{
		Machine: v1alpha1.CatalogMachine{Vendor: "hpe", Model: "dl380"},
	}}
	w.create(catalog)
	catalog.Status.Components = []v1alpha1.CatalogComponent{{Class: drive.Class, Vendor: drive.Vendor, Model: drive.Model, Running: []v1alpha1.CatalogRunning{
		{Version: "HPD5", Position: v1alpha1.PositionBehind, Limit: &v1alpha1.CatalogLimit{Issue: "a00092491", PowerOnHours: 32_768}},
		{Version: "HPD8", Position: v1alpha1.PositionNewest},
	}}}
	require.NoError(t, w.Status().Update(t.Context(), catalog))
	for node, is := range map[string]struct {
		version string
		hours   int64
	}{"n2": {"HPD5", 20_000}, "n3": {"HPD5", 32_000}, "n4": {"HPD8", 40_000}, "n5": {"HPD8", 0}} {
		firmware := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: node}}
		device := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: node + "-bios"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: node}}
		w.create(firmware, device)
		firmware.Status.Machine = &v1alpha1.Machine{Vendor: "HPE", Model: "DL380"}
		device.Status.Class, device.Status.Vendor, device.Status.Model = drive.Class, drive.Vendor, drive.Model
		device.Status.Firmware = &v1alpha1.ObservedFirmware{Running: is.version, Access: v1alpha1.AccessReadWrite, VersionFormat: v1alpha1.VersionFormatPlain}
		device.Status.PowerOnHours, device.Status.PowerOnHoursTime = &is.hours, &metav1.Time{Time: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}
		require.NoError(t, w.Status().Update(t.Context(), firmware))
		require.NoError(t, w.Status().Update(t.Context(), device))
	}
	w.operator().pass()
	assert.Equal(t, "j5 j3 j2 j1 j4", strings.Join(w.ledger("default"), " "))
}

// What the API server cannot refuse is said in a condition, and stops this policy's pool only.
func TestWavesThatCannotBeFollowedStopTheirPoolOnly(t *testing.T) {
	tenth, half := intstr.FromString("10%"), intstr.FromString("50%")
	for field, waves := range map[string][]v1alpha1.RolloutWave{
		"spec.waves[1].size": {{Name: "half", Size: &half}, {Name: "tenth", Size: &tenth}},
		"spec.waves[0].nodeSelector": {{Name: "canary", NodeSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "canary", Operator: metav1.LabelSelectorOpIn}},
		}}},
	} {
		t.Run(field, func(t *testing.T) {
			w := newWorld(t)
			p := newPolicy("gpu", intstr.FromInt32(1), map[string]string{"pool": "gpu"})
			p.Spec.Waves = waves
			w.create(p, newNode("n1", map[string]string{"pool": "gpu"}), newNode("n2", nil))
			w.queue("j1", "n1")
			w.queue("j2", "n2")
			o := w.operator()
			o.pass()
			require.Equal(t, []string{"j2"}, w.admitted())
			require.Equal(t, v1alpha1.ReasonInvalidSpec, w.reason("j1"))
			stalled := meta.FindStatusCondition(w.policy("gpu").Status.Conditions, v1alpha1.ConditionStalled)
			require.NotNil(t, stalled)
			assert.Contains(t, stalled.Message, field)
			w.requireStatus(o, "gpu", status.FailedStatus)
		})
	}
}

func priorityTemplate(priority int32) *v1alpha1.FirmwareTemplate {
	return &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: v1alpha1.FirmwareTemplateSpec{
		Priority: priority, Rules: []v1alpha1.FirmwareRule{{
			Name: "r", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassBIOS, Vendor: "any"}, Version: "2", SourceRef: v1alpha1.SourceReference{Name: "s"},
		}},
	}}
}

// R000-53: waves that a person adds in the middle of an update hold it back, an edit of anything else does not, and neither does another
// operator, which reads what the waves were.
func TestWavesAreAddedOnTheWay(t *testing.T) {
	w := newWorld(t)
	p := newPolicy("default", intstr.FromInt32(2), nil)
	p.Spec.Halt = &v1alpha1.RolloutHalt{MaxFailures: ptr.To(intstr.FromInt32(1))}
	w.create(p)
	for i := range 9 {
		name := fmt.Sprintf("n%d", i)
		w.create(newNode(name, nil))
		w.queue("j"+name[1:], name)
	}
	o := w.operator()
	o.pass()
	require.Equal(t, []string{"j0", "j1"}, w.admitted())
	w.complete("j0")
	w.complete("j1")
	three := intstr.FromInt32(3)
	w.change("default", func(p *v1alpha1.RolloutPolicy) {
		p.Spec.Waves = []v1alpha1.RolloutWave{{Name: "three", Size: &three, Soak: "1h"}}
	})
	o.pass()
	require.Equal(t, []string{"j2"}, w.admitted(), "the third of the wave")
	assert.Equal(t, "three", w.rollout("default").Wave)
	w.complete("j2")
	o.pass()
	require.Empty(t, w.admitted(), "it soaks")
	w.clock = w.clock.Add(time.Hour)
	o = w.operator()
	o.pass()
	require.Equal(t, []string{"j3", "j4"}, w.admitted())
	w.change("default", func(p *v1alpha1.RolloutPolicy) { p.Spec.MaxUnavailable = ptr.To(intstr.FromInt32(3)) })
	o.pass()
	assert.Equal(t, []string{"j3", "j4", "j5"}, w.admitted())
	assert.Equal(t, "rest", w.rollout("default").Wave)
}

// A node of the control plane whose Node is deleted under its job keeps the others of the control plane, and no worker where it is known
// to have been one.
func TestADeletedNodeIsRemembered(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(2), nil))
	control := map[string]string{"node-role.kubernetes.io/control-plane": ""}
	for name, labels := range map[string]map[string]string{"c0": control, "c1": control, "w0": nil} {
		w.create(newNode(name, labels))
	}
	w.queue("j0", "c0")
	o := w.operator()
	o.pass()
	require.Equal(t, []string{"j0"}, w.admitted())
	o.pass()
	require.NoError(t, w.Delete(t.Context(), newNode("c0", nil)))
	w.queue("j1", "c1")
	w.queue("j2", "w0")
	o.pass()
	assert.Equal(t, []string{"j0", "j2"}, w.admitted())
	assert.Contains(t, w.message("j1"), "Node c0 was deleted")
}
