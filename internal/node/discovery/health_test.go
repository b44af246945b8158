package discovery_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 500, time.UTC)

func judged(result journal.Health, bootID string) *journal.Verdict {
	return &journal.Verdict{Result: result, BootID: bootID, Time: noon, Job: "n1-1234", Complaints: []string{"a link is down"}}
}

// assign makes the card's device want a version.
func (b *bench) assign(t *testing.T, firmware v1alpha1.DesiredFirmware) {
	t.Helper()
	d := b.device(t, "n1-nic-aa")
	firmware.Policy, firmware.Downgrade = v1alpha1.PolicyApply, v1alpha1.DowngradeForbid
	d.Spec.Origin = []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: "t", Rule: "r"}, {Kind: v1alpha1.OriginSource, Name: "cx6"}}
	if firmware.Digest == "" {
		firmware.Digest = v1alpha1.Digest("sha256:" + strings.Repeat("a", 64))
	}
	d.Spec.Firmware = &firmware
	d.Generation++
	require.NoError(t, b.client.Update(t.Context(), d))
}

func (b *bench) ready(t *testing.T, name string) *metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(b.device(t, name).Status.Conditions, v1alpha1.ConditionReady)
	require.NotNil(t, c)
	return c
}

func (b *bench) healthy(t *testing.T) *metav1.Condition {
	t.Helper()
	return meta.FindStatusCondition(b.node(t).Status.Conditions, v1alpha1.ConditionHealthy)
}

// TestOtherBootsVerdictIsUnknown proves R002-31.
func TestOtherBootsVerdictIsUnknown(t *testing.T) {
	b := newBench(t)
	b.book.view.Verdict = judged(journal.Healthy, "boot-1")
	b.seen(t)
	healthy := func() *metav1.Condition { return b.healthy(t) }
	require.NotNil(t, healthy())
	assert.Equal(t, metav1.ConditionTrue, healthy().Status)

	b.host.found.BootID = "boot-2" // and the gate of the job that rebooted has not judged yet
	b.restart()
	b.seen(t)
	assert.Equal(t, metav1.ConditionUnknown, healthy().Status)
	assert.Equal(t, v1alpha1.ReasonPending, healthy().Reason)
	assert.Equal(t, journal.Healthy, b.book.view.Verdict.Result, "the journal's is left as it is")

	b.host.found.BootID = ""
	b.seen(t)
	assert.Equal(t, metav1.ConditionUnknown, healthy().Status, "nor does it say anything where the boot is not known")

	b.host.found.BootID, b.book.view.Verdict = "boot-2", judged(journal.Unhealthy, "boot-2")
	b.seen(t)
	assert.Equal(t, metav1.ConditionFalse, healthy().Status)
	assert.Equal(t, v1alpha1.ReasonUnhealthy, healthy().Reason)
	assert.Contains(t, healthy().Message, "A link is down.")
}

// TestReadyNodeIsNoVerdict proves R002-23.
func TestReadyNodeIsNoVerdict(t *testing.T) {
	b := newBench(t)
	var n corev1.Node
	require.NoError(t, b.client.Get(t.Context(), client.ObjectKey{Name: node}, &n))
	n.Status.NodeInfo.BootID = "boot-2"
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	require.NoError(t, b.client.Update(t.Context(), &n))
	b.seen(t)
	assert.Nil(t, b.healthy(t), "the daemon scans and the node is Ready, yet its health was not judged")
	b.host.found.BootID, b.book.view.Verdict = "boot-2", judged(journal.Healthy, "boot-1")
	b.seen(t)
	assert.Equal(t, metav1.ConditionUnknown, b.healthy(t).Status)
}

// TestOnlyTheGatesVerdictIsShown proves R002-19.
func TestOnlyTheGatesVerdictIsShown(t *testing.T) {
	b := newBench(t)
	failed := held(step.Failure{Reason: step.WriteFailed, Message: "the tool said no", Step: plan.Flash, Device: "n1-nic-aa", Held: true})
	b.book.view = journal.View{Jobs: []journal.Job{failed}, History: []journal.Past{
		{Job: "n1-1234", Result: journal.Complete, Finished: noon},
	}}
	b.seen(t)
	assert.Nil(t, b.healthy(t), "neither a job that failed nor one that completed is a verdict")
}

// TestRestartOfTheDaemonKeepsTheVerdictOfThisBoot proves R002-48.
func TestRestartOfTheDaemonKeepsTheVerdictOfThisBoot(t *testing.T) {
	b := newBench(t)
	b.book.view.Verdict = judged(journal.Unhealthy, "boot-1")
	b.seen(t)
	want := b.healthy(t)
	b.restart()
	before := b.writes
	b.seen(t)
	assert.Equal(t, want, b.healthy(t))
	assert.LessOrEqual(t, b.writes, before+1, "at most the time of the scan is written")
}

// held is the job that keeps the node after a failure.
func held(f step.Failure) journal.Job {
	job := journal.Job{Name: "n1-1234", UID: "job"}
	job.Record = step.New(nil, step.Update{Device: "n1-nic-aa", Version: "22.41.1000"})
	job.Record.Outcome, job.Record.Failure = step.Failed, &f
	return job
}

// TestNothingIsFlashedToADeviceAJobLeftUnhealthy proves R002-12, R002-53.
func TestNothingIsFlashedToADeviceAJobLeftUnhealthy(t *testing.T) {
	b := newBench(t)
	b.seen(t)
	b.assign(t, v1alpha1.DesiredFirmware{Version: "22.42.1000"})
	b.seen(t)
	assert.Equal(t, v1alpha1.ReasonPending, b.ready(t, "n1-nic-aa").Reason)
	b.book.view.Devices = map[string]journal.Device{"aa": {UniqueID: "aa", Unhealthy: &journal.UnhealthyMark{
		Since: noon, Job: "n1-1234", Message: "link b8:ce:f6:00:00:01 is not up any more",
	}}}
	b.seen(t)
	ready := b.ready(t, "n1-nic-aa")
	assert.Equal(t, v1alpha1.ReasonDeviceUnhealthy, ready.Reason)
	assert.Contains(t, ready.Message, "job n1-1234: link b8:ce:f6:00:00:01 is not up any more")
	assert.Contains(t, ready.Message, "kubectl patch nfw n1", "what to do next")
	assert.Contains(t, ready.Message, `\"retry\"`)
	assert.True(t, meta.IsStatusConditionTrue(b.device(t, "n1-nic-aa").Status.Conditions, v1alpha1.ConditionStalled))

	b.assign(t, v1alpha1.DesiredFirmware{Version: "22.43.1000", Digest: v1alpha1.Digest("sha256:" + strings.Repeat("b", 64))})
	b.seen(t)
	assert.Equal(t, v1alpha1.ReasonDeviceUnhealthy, b.ready(t, "n1-nic-aa").Reason, "another image does not help")
	b.assign(t, v1alpha1.DesiredFirmware{Version: "22.39.1002"})
	b.seen(t)
	assert.Equal(t, v1alpha1.ReasonDeviceUnhealthy, b.ready(t, "n1-nic-aa").Reason, "nor is the version that runs")
	assert.Equal(t, v1alpha1.ReasonNotAssigned, b.ready(t, "n1-disk-bb").Reason, "the other devices are not concerned")
}

// TestUnhealthyDeviceStaysRefusedOverBootsUntilCleared proves R002-54.
func TestUnhealthyDeviceStaysRefusedOverBootsUntilCleared(t *testing.T) {
	b := newBench(t)
	b.seen(t)
	b.assign(t, v1alpha1.DesiredFirmware{Version: "22.42.1000"})
	mark := journal.UnhealthyMark{Since: noon, Job: "n1-1234", Retry: ptr.To("before the job")}
	b.book.view.Devices = map[string]journal.Device{"aa": {UniqueID: "aa", Unhealthy: &mark}}
	for _, boot := range []string{"boot-1", "boot-2", "boot-3"} {
		b.host.found.BootID = boot
		b.restart()
		b.seen(t)
		assert.Equal(t, v1alpha1.ReasonDeviceUnhealthy, b.ready(t, "n1-nic-aa").Reason, boot)
	}
	b.book.view.Devices = nil
	b.restart()
	b.seen(t)
	require.NotNil(t, b.device(t, "n1-nic-aa").Status.Failure, "a lost journal clears nothing")
	assert.Equal(t, v1alpha1.ReasonDeviceUnhealthy, b.ready(t, "n1-nic-aa").Reason)

	clear := func(request string) {
		n := b.node(t)
		n.Spec.Requests.Retry = request
		require.NoError(t, b.client.Update(t.Context(), n))
		b.seen(t)
	}
	clear("before the job")
	assert.Equal(t, v1alpha1.ReasonDeviceUnhealthy, b.ready(t, "n1-nic-aa").Reason, "the job followed that request")
	clear("after the repair")
	assert.Nil(t, b.device(t, "n1-nic-aa").Status.Failure)
	assert.Equal(t, v1alpha1.ReasonPending, b.ready(t, "n1-nic-aa").Reason)
}

func TestRevokedMarkDisappears(t *testing.T) {
	b := newBench(t)
	mark := journal.UnhealthyMark{Since: noon, Job: "n1-1234"}
	b.book.view.Devices = map[string]journal.Device{"aa": {UniqueID: "aa", Unhealthy: &mark}}
	b.seen(t)
	require.NotNil(t, b.device(t, "n1-nic-aa").Status.Failure)
	b.book.view.Devices = map[string]journal.Device{"aa": {UniqueID: "aa"}}
	b.seen(t)
	assert.Nil(t, b.device(t, "n1-nic-aa").Status.Failure)
}

func TestJudgesPathByRunningVersion(t *testing.T) {
	step := func(digit string, p v1alpha1.UpgradePath) v1alpha1.UpgradeStep {
		p.To = "22.42.1000"
		out := v1alpha1.UpgradeStep{UpgradePath: p}
		if digit != "" {
			out.Digest = v1alpha1.Digest("sha256:" + strings.Repeat(digit, 64))
		}
		return out
	}
	for name, c := range map[string]struct {
		path   v1alpha1.UpgradeStep
		reason string
		says   []string
	}{
		"a blocked edge": {step("", v1alpha1.UpgradePath{From: []string{"22.39.1002"}}), v1alpha1.ReasonPathBlocked,
			[]string{"22.42.1000 must not be flashed over the running 22.39.1002", "declare a version in between", "upgradePaths"}},
		"too old": {step("", v1alpha1.UpgradePath{Below: "22.41.0"}), v1alpha1.ReasonPathBlocked,
			[]string{"needs at least 22.41.0", "declare a version in between", "upgradePaths"}},
		"not to be ordered": {step("", v1alpha1.UpgradePath{Below: "new"}), v1alpha1.ReasonPathBlocked,
			[]string{"cannot be ordered", "upgradePaths"}},
		"a hop": {step("b", v1alpha1.UpgradePath{From: []string{"22.39.1002"}, Via: "22.41.1000"}), v1alpha1.ReasonPending, []string{"the update to 22.41.1000 on the way to 22.42.1000 waits"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.seen(t)
			b.assign(t, v1alpha1.DesiredFirmware{Version: "22.42.1000", Path: []v1alpha1.UpgradeStep{c.path}})
			b.seen(t)
			ready := b.ready(t, "n1-nic-aa")
			assert.Equal(t, c.reason, ready.Reason)
			for _, s := range c.says {
				assert.Contains(t, strings.ToLower(ready.Message), strings.ToLower(s))
			}
		})
	}
}

// TestDeviceSaysHowItsFirmwareIsBroughtBack proves R002-22.
func TestDeviceSaysHowItsFirmwareIsBroughtBack(t *testing.T) {
	b := newBench(t)
	b.host.found.Devices[0].Firmware.Rollback = inventory.RollbackReadBack
	b.host.found.Devices[1].Firmware.RollbackMessage = "the drive has one slot"
	b.seen(t)
	assert.Equal(t, v1alpha1.RollbackReadBack, b.device(t, "n1-nic-aa").Status.Firmware.Rollback)
	drive := b.device(t, "n1-disk-bb").Status.Firmware
	assert.Equal(t, v1alpha1.RollbackNone, drive.Rollback)
	assert.Equal(t, []string{"the drive has one slot"}, drive.Notes)
}

// TestNodeThatCouldNotBeBroughtBackWaitsForAPerson proves R002-27, R003-25.
func TestNodeThatCouldNotBeBroughtBackWaitsForAPerson(t *testing.T) {
	b := newBench(t)
	job := held(step.Failure{
		Reason: step.Unhealthy, Message: "the link is down", Step: plan.Health, Held: true, Blames: []string{"n1-nic-aa"},
	})
	job.Record.Rollback = &step.Rollback{Failure: &step.Failure{
		Reason: step.RollbackUnavailable, Message: "the previous firmware cannot be restored: n1-nic-aa has one slot", Held: true,
	}}
	b.book.view = journal.View{Jobs: []journal.Job{job}, History: []journal.Past{
		{Job: "n1-1234", Result: journal.Failed, Finished: noon, Message: "Unhealthy: the link is down"},
	}}
	b.seen(t)
	got := b.node(t).Status
	stalled := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionStalled)
	require.NotNil(t, stalled)
	assert.Equal(t, v1alpha1.ReasonNeedsIntervention, stalled.Reason)
	assert.Contains(t, stalled.Message, "one slot")
	assert.True(t, meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionHeld), "it stays in maintenance")
	assert.Equal(t, "Unhealthy: the link is down", got.LastError)
	before := b.writes
	b.restart()
	b.seen(t)
	assert.LessOrEqual(t, b.writes, before+1, "and it says the same until a person acts")
}

func TestStepsOfTheNodeAreListed(t *testing.T) {
	b := newBench(t)
	b.steps = []v1alpha1.EnabledStep{
		{Name: "preflight", Interface: "node", Priority: 1000},
		{Name: "flash", Interface: "NIC", Priority: 820},
	}
	b.restart()
	b.seen(t)
	assert.Equal(t, b.steps, b.node(t).Status.Steps)
	b.steps = b.steps[:1]
	b.restart()
	b.seen(t)
	assert.Equal(t, b.steps, b.node(t).Status.Steps)
}
