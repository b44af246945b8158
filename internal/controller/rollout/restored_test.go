package rollout_test

import (
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	apply "github.com/nodefirmware/node-firmware-operator/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

// scanned reports as the daemon of a node does after a scan. The job is the one that it is at work on; empty for none.
func (w *world) scanned(node, job string, at time.Time) {
	w.Helper()
	body := apply.NodeFirmwareStatus().WithObservedGeneration(1).WithLastScanTime(metav1.NewTime(at))
	if job != "" {
		body.WithCurrentStep(apply.CurrentStep().WithJob(job).WithName("flash"))
	}
	require.NoError(w, w.Status().Apply(w.Context(), apply.NodeFirmware(node).WithStatus(body), client.FieldOwner(v1alpha1.FieldOwnerDaemon), client.ForceOwnership))
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
	assert.EqualValues(t, 3, w.policy("default").Status.Unavailable)
	assert.LessOrEqual(t, o.next, time.Minute, "it looks for reports soon")

	w.scanned("n2", "", w.clock)
	w.scanned("n3", "", w.clock)
	o.pass()
	require.Empty(t, w.admitted(), "n1 may be at work")

	w.scanned("n1", "job-of-today", w.clock)
	o.pass()
	require.Empty(t, w.admitted(), "n1 is at work, and the budget is one node")
	assert.EqualValues(t, 1, w.policy("default").Status.Unavailable)
	assert.NotContains(t, w.message("job-2"), "restored from a backup")
	assert.Zero(t, o.next, "everybody has reported")

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
func TestANodeThatNeverReportedIsNotWaitedFor(t *testing.T) {
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
