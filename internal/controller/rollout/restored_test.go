package rollout_test

import (
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
)

// scanned reports as the daemon of a node does after a scan. The job is the one that it is at work on; empty for none.
func (w *world) scanned(node, job string, at time.Time) {
	w.Helper()
	s := v1alpha1.NodeFirmwareStatus{ObservedGeneration: 1, LastScanTime: ptr.To(metav1.NewTime(at))}
	if job != "" {
		s.CurrentStep = &v1alpha1.CurrentStep{Job: job, Name: "flash"}
	}
	require.NoError(w, fieldset.ApplyNode(w.Context(), w, node, s))
}

// reportHeld reports as the daemon of a node does that a failed job holds.
func (w *world) reportHeld(node, by string) {
	w.Helper()
	require.NoError(w, fieldset.ApplyNode(w.Context(), w, node, v1alpha1.NodeFirmwareStatus{ObservedGeneration: 1, HeldBy: by}))
}

// restored is an API server as a backup of yesterday has it: three nodes that were idle then, and a job for one of them.
func restored(t *testing.T) (w *world, o *operator) {
	w = newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(1), nil))
	w.nodes("n1", "n2", "n3")
	for _, n := range []string{"n1", "n2", "n3"} {
		w.create(&v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: n}})
		w.scanned(n, "", w.clock.Add(-25*time.Hour))
	}
	w.queue("job-2", "n2")
	o = w.operator()
	o.view.ahead = 24 * time.Hour
	return w, o
}

// After a restore nobody is admitted until the nodes have said whether they are at work: the API knows nothing of the jobs that
// were begun since the backup.
func TestAfterARestoreNobodyIsAdmittedBeforeTheNodesHaveReported(t *testing.T) {
	w, o := restored(t)
	o.pass()
	require.Empty(t, w.admitted())
	require.Equal(t, v1alpha1.ReasonBudgetExhausted, w.reason("job-2"))
	assert.Contains(t, w.message("job-2"), "restored from a backup")
	assert.EqualValues(t, 3, w.policy("default").Status.Nodes.Unavailable)
	assert.LessOrEqual(t, o.next, time.Minute, "it looks for reports soon")

	w.scanned("n2", "", w.clock)
	w.scanned("n3", "", w.clock)
	o.pass()
	require.Empty(t, w.admitted(), "n1 may be at work")

	w.scanned("n1", "job-of-today", w.clock)
	o.pass()
	require.Empty(t, w.admitted(), "n1 is at work, and the budget is one node")
	assert.EqualValues(t, 1, w.policy("default").Status.Nodes.Unavailable)
	assert.NotContains(t, w.message("job-2"), "restored from a backup")
	assert.Equal(t, 5*time.Minute, o.next, "everybody has reported; n1 is named when its job stays unknown")

	w.scanned("n1", "", w.clock.Add(time.Minute))
	o.pass()
	assert.Equal(t, []string{"job-2"}, w.admitted())
	w.requireStatus(o, "default", status.InProgressStatus)
}

// A node whose daemon is gone does not stop its pool for ever.
func TestNodesThatNeverReportAreNotWaitedForLong(t *testing.T) {
	w, o := restored(t)
	o.pass()
	require.Empty(t, w.admitted())
	w.clock = w.clock.Add(14 * time.Minute)
	o.pass()
	require.Empty(t, w.admitted())
	w.clock = w.clock.Add(2 * time.Minute)
	o.pass()
	assert.Equal(t, []string{"job-2"}, w.admitted())
	assert.Zero(t, o.next)
	w.requireStatus(o, "default", status.InProgressStatus)
}

// An operator that is restarted waits for nobody: the daemons have reported within the last hour.
func TestAnOperatorThatIsRestartedDoesNotWaitForReports(t *testing.T) {
	w, o := restored(t)
	o.view.ahead = time.Hour
	o.pass()
	assert.Equal(t, []string{"job-2"}, w.admitted())
	w.requireStatus(o, "default", status.InProgressStatus)
}

// Nodes that have no daemon, and never had one, are not waited for.
func TestNodeWithoutDaemonIsSkipped(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(1), nil), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	w.nodes("n1", "n2")
	w.queue("job-2", "n2")
	o := w.operator()
	o.view.ahead = 24 * time.Hour
	o.pass()
	assert.Equal(t, []string{"job-2"}, w.admitted())
	w.requireStatus(o, "default", status.InProgressStatus)
}

// A node whose daemon is gone reports for ever what it reported last. The jobs that wait for its place name it, and say how it is freed.
func TestTheMessageNamesANodeWhoseReportKeepsItsPlace(t *testing.T) {
	for name, c := range map[string]struct {
		report func(w *world)
		says   string
	}{
		"at work": {func(w *world) { w.scanned("n1", "lost-1", w.clock) }, "n1 (at work on lost-1) reports a job that is gone or has ended"},
		"held":    {func(w *world) { w.reportHeld("n1", "gone") }, "n1 (held by a failed job) reports a job that is gone or has ended"},
		"at work on a job that has ended": {func(w *world) {
			w.queue("done", "n1")
			w.complete("done")
			w.scanned("n1", "done", w.clock)
		}, "n1 (at work on done) reports a job that is gone or has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create(newPolicy("default", intstr.FromInt32(1), nil), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
			w.nodes("n1", "n2")
			c.report(w)
			w.queue("job-2", "n2")
			o := w.operator()
			o.pass()
			require.Equal(t, v1alpha1.ReasonBudgetExhausted, w.reason("job-2"))
			assert.Empty(t, w.job("job-2").Status.Conditions, "a daemon may be about to report the end of the job")
			require.Equal(t, 5*time.Minute, o.next)

			w.clock = w.clock.Add(5 * time.Minute)
			o.pass()
			assert.Empty(t, w.admitted())
			assert.Contains(t, w.message("job-2"), c.says)
			assert.Contains(t, w.message("job-2"), "kubectl delete nfw n1")
			assert.Zero(t, o.next, "nothing else is to be said")

			require.NoError(t, w.Delete(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
			o.pass()
			assert.Equal(t, []string{"job-2"}, w.admitted())
			w.requireStatus(o, "default", status.InProgressStatus)
		})
	}
}

// The same where the place is in the ledger, and a person removed the job with its finalizer.
func TestTheMessageNamesANodeThatKeepsThePlaceOfAJobThatIsGone(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(1), nil), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	w.nodes("n1", "n2")
	w.queue("forced", "n1")
	o := w.operator()
	o.pass()
	require.Equal(t, []string{"forced"}, w.admitted())
	w.scanned("n1", "forced", w.clock)
	w.queue("job-2", "n2")
	w.delete("forced")
	w.takeFinalizer("forced")
	o.pass()
	require.Equal(t, v1alpha1.ReasonBudgetExhausted, w.reason("job-2"))
	w.clock = w.clock.Add(5 * time.Minute)
	o.pass()
	assert.Contains(t, w.message("job-2"), "n1 (at work on forced) reports a job that is gone or has ended")
	require.NoError(t, w.Delete(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	o.pass()
	assert.Equal(t, []string{"job-2"}, w.admitted())
	w.requireStatus(o, "default", status.InProgressStatus)
}

// A node whose daemon is gone stops its pool for a while with each start of the operator. It is named, and can be left out.
func TestTheMessageNamesTheNodesThatHaveNotReported(t *testing.T) {
	w, o := restored(t)
	o.pass()
	assert.Contains(t, w.message("job-2"), "The daemons of n1, n2 and n3 have not reported since the operator started")
	w.scanned("n2", "", w.clock)
	w.scanned("n3", "", w.clock)
	o.pass()
	require.Empty(t, w.admitted())
	assert.Contains(t, w.message("job-2"), "The daemon of n1 has not reported since the operator started")
	assert.Contains(t, w.message("job-2"), "kubectl delete nfw n1")

	require.NoError(t, w.Delete(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	o.pass()
	assert.Equal(t, []string{"job-2"}, w.admitted())
	assert.Zero(t, o.next)
	w.create(&v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}) // as the operator does
	again := w.operator()
	again.view.ahead = 24 * time.Hour
	again.pass()
	w.complete("job-2")
	w.queue("job-3", "n3")
	again.pass()
	assert.Contains(t, w.message("job-3"), "The daemons of n2 and n3 have not reported", "n1 has never had a daemon, and stops nobody")
}

// An API server without SelfSubjectReview, which came with Kubernetes 1.28, stops no rollout.
func TestAnAPIServerThatDoesNotTellItsTimeStopsNobody(t *testing.T) {
	w, o := restored(t)
	o.view.clockless = &meta.NoKindMatchError{
		GroupKind: schema.GroupKind{Group: "authentication.k8s.io", Kind: "SelfSubjectReview"}, SearchedVersions: []string{"v1"},
	}
	o.pass()
	assert.Equal(t, []string{"job-2"}, w.admitted())
	w.requireStatus(o, "default", status.InProgressStatus)
}
