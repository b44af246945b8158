package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// A daemon that refuses to start is in no other object: its NodeFirmware says since when, and what its pod says.
func TestDaemonReady(t *testing.T) {
	c := newCluster(t)
	n := c.node("n")
	now := time.Now()
	recorder := events.NewFakeRecorder(10)
	r := New(c.Client, c.Client, recorder, apitest.Namespace, func() time.Time { return now }, time.Hour)
	look := func() *metav1.Condition {
		t.Helper()
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n"}})
		require.NoError(t, err)
		return meta.FindStatusCondition(c.awaitFirmware("n").Status.Conditions, v1alpha1.ConditionDaemonReady)
	}
	says := func(reason, message string) {
		t.Helper()
		got := look()
		require.NotNil(t, got)
		assert.Equal(t, reason, got.Reason)
		assert.Contains(t, got.Message, message)
	}
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n"}})
	require.NoError(t, err)
	assert.Nil(t, look(), "it may be about to start")
	now = now.Add(startsWithin + time.Minute)
	says(v1alpha1.ReasonNodeNotReady, "has never reported; the Node is not Ready")
	assert.Len(t, recorder.Events, 1)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	require.NoError(t, c.Client.Status().Update(t.Context(), n))
	says(v1alpha1.ReasonNotReporting, "has no pod on the node")

	pod := func(name, node string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: apitest.Namespace, Name: name, Labels: daemonPods},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "daemon", Image: "x"}}},
		}
	}
	unplaced := pod("unplaced", "")
	unplaced.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n"}}}}},
	}}}
	c.create(unplaced)
	unplaced.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "Insufficient memory."}}
	require.NoError(t, c.Client.Status().Update(t.Context(), unplaced))
	says(v1alpha1.ReasonNotReporting, "Its pod: Unschedulable: Insufficient memory. To see more")

	c.create(pod("elsewhere", "m"))
	p := pod("daemon-x", "n")
	c.create(p)
	crashed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "the state is of a newer version"}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "daemon", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s"}}, LastTerminationState: crashed,
	}}
	require.NoError(t, c.Client.Status().Update(t.Context(), p))
	says(v1alpha1.ReasonNotReporting, "Its pod: CrashLoopBackOff; it ended with exit code 1: the state is of a newer version. To see more: kubectl -n "+apitest.Namespace+" logs daemon-x --previous")
	assert.Len(t, recorder.Events, 1, "said once")

	report := func(scanned time.Time) string {
		require.NoError(t, fieldset.ApplyNode(t.Context(), c.Client, "n", v1alpha1.NodeFirmwareStatus{LastScanTime: &metav1.Time{Time: scanned}}))
		return v1alpha1.ReportedAt(c.awaitFirmware("n")).UTC().Format(time.RFC3339)
	}
	last := report(time.Now().Add(-24 * time.Hour)) // the clock of the node is a day behind
	says(v1alpha1.ReasonSucceeded, "The daemon of the node reports.")
	now = time.Now().Add(v1alpha1.ReportsWithin + time.Minute)
	says(v1alpha1.ReasonNotReporting, "The daemon has not reported since "+last+". Its pod: CrashLoopBackOff")
	p.Status.ContainerStatuses, p.Status.Conditions = nil, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	require.NoError(t, c.Client.Status().Update(t.Context(), p))
	says(v1alpha1.ReasonNotReporting, "The daemon has not reported since "+last+", and its pod daemon-x is ready.")
	assert.Equal(t, metav1.ConditionTrue, look().Status)
	silent := c.awaitFirmware("n")
	for i := range silent.ManagedFields { // the API tells seconds
		silent.ManagedFields[i].Time = &metav1.Time{Time: time.Now().Add(-v1alpha1.ReportsWithin)}
	}
	report(time.Now())
	require.True(t, firmwareChanges.Update(event.UpdateEvent{ObjectOld: silent, ObjectNew: c.awaitFirmware("n")}), "it looks again at once")
	now = time.Now()
	says(v1alpha1.ReasonSucceeded, "The daemon of the node reports.")
}

// A report that comes while the daemon is found silent is not overruled: the condition is for the version that was read.
func TestReportIsNotOverruled(t *testing.T) {
	c := newCluster(t)
	c.node("n")
	late := time.Now().Add(startsWithin + time.Minute)
	r := New(c.Client, c.Client, events.NewFakeRecorder(10), apitest.Namespace, func() time.Time { return late }, time.Hour)
	f, err := r.gather(t.Context(), "n")
	require.NoError(t, err)
	require.NoError(t, r.act(t.Context(), f, decide(f)))
	f, err = r.gather(t.Context(), "n")
	require.NoError(t, err)
	d := decide(f)
	require.NotNil(t, d.reports)
	require.NoError(t, fieldset.ApplyNode(t.Context(), c.Client, "n", v1alpha1.NodeFirmwareStatus{LastScanTime: &metav1.Time{Time: late}}))
	assert.True(t, apierrors.IsConflict(r.act(t.Context(), f, d)))
	assert.Nil(t, meta.FindStatusCondition(c.awaitFirmware("n").Status.Conditions, v1alpha1.ConditionDaemonReady))
}

// What a person asks for is no silence: a node with a scanThreshold of a day reports once a day.
func TestOverdue(t *testing.T) {
	now := time.Now()
	at := func(ago time.Duration, threshold string) *v1alpha1.NodeFirmware {
		return &v1alpha1.NodeFirmware{
			ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: v1alpha1.FieldOwnerDaemon, Time: &metav1.Time{Time: now.Add(-ago)}}}},
			Spec:       v1alpha1.NodeFirmwareSpec{ScanThreshold: v1alpha1.Duration(threshold)},
		}
	}
	assert.Positive(t, overdue(at(76*time.Minute, ""), now))
	assert.Negative(t, overdue(at(74*time.Minute, "1s"), now))
	assert.Negative(t, overdue(at(24*time.Hour, "24h"), now))
	assert.Positive(t, overdue(at(25*time.Hour, "24h"), now))
}

// What ended a daemon is told from its pod, however often that begins again.
func TestTrouble(t *testing.T) {
	since := metav1.Now()
	after, before := metav1.NewTime(since.Add(time.Minute)), metav1.NewTime(since.Add(-time.Minute))
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := func(code int32, reason, message string, at metav1.Time) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message, FinishedAt: at}}
	}
	waits := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	of := func(ready corev1.ConditionStatus, now, last corev1.ContainerState) corev1.PodStatus {
		return corev1.PodStatus{
			Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{State: now, LastTerminationState: last}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}},
		}
	}
	unwritten := corev1.ContainerState{}
	for name, c := range map[string]struct {
		status corev1.PodStatus
		want   string
		ended  bool
	}{
		"it runs":                        {status: of("True", running, unwritten)},
		"it ended before it reported":    {status: of("True", running, ended(1, "Error", "no API", before))},
		"it ended since, and runs again": {of("True", running, ended(1, "Error", "no API", after)), "it ended with exit code 1: no API", true},
		"it ended, and is not ready yet": {of("False", running, ended(137, "OOMKilled", "", after)), "it ended with exit code 137 (OOMKilled)", true},
		"it has just ended":              {of("False", ended(2, "Error", " panic\n", after), unwritten), "it ended with exit code 2: panic", true},
		"it ended and begins later":      {of("False", waits("CrashLoopBackOff", "back-off"), ended(1, "Error", "x", after)), "CrashLoopBackOff; it ended with exit code 1: x", true},
		"its image is not there":         {of("False", waits("ImagePullBackOff", "not found"), unwritten), "ImagePullBackOff: not found", false},
		"its new image is not there":     {of("False", waits("ErrImagePull", "not found"), ended(0, "Completed", "", after)), "ErrImagePull: not found", false},
		"it is being made":               {of("False", waits("ContainerCreating", ""), unwritten), "ContainerCreating", false},
		"it runs and is not ready":       {of("False", running, unwritten), "it is Running and not ready", false},
		"it was evicted":                 {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "disk pressure"}, "Evicted: disk pressure", false},
		"nobody looked at it":            {corev1.PodStatus{}, "it is Pending and not ready", false},
	} {
		t.Run(name, func(t *testing.T) {
			said, ended := trouble(&corev1.Pod{Status: c.status}, &since)
			assert.Equal(t, c.want, said)
			assert.Equal(t, c.ended, ended)
		})
	}
}
