package quarantine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/trim"
)

func TestMain(m *testing.M) { apitest.Main(m) }

const (
	model = "15b3:101d"
	nic   = "n1-nic"
)

// ward is a real API with the reconciler at work on it.
type ward struct {
	*testing.T
	client.Client
	events *events.FakeRecorder
	stop   func()
}

func newWard(t *testing.T) *ward {
	t.Helper()
	env := apitest.New(t)
	w := &ward{T: t, Client: env.Client, events: events.NewFakeRecorder(1000)}
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{
		Scheme: env.Scheme, Cache: cache.Options{DefaultTransform: trim.Object}, Metrics: server.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(t, err)
	require.NoError(t, index.Register(t.Context(), mgr.GetFieldIndexer()))
	require.NoError(t, New(mgr.GetClient(), w.events, time.Now).SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	w.stop = func() {
		cancel()
		require.NoError(t, <-done)
		done <- nil
	}
	t.Cleanup(w.stop)
	return w
}

func digest(n int) v1alpha1.Digest { return v1alpha1.Digest(fmt.Sprintf("sha256:%016x%048x", n, 0)) }

func (w *ward) get(n int, model string) *v1alpha1.FirmwareQuarantine {
	w.Helper()
	q := &v1alpha1.FirmwareQuarantine{}
	require.NoError(w, client.IgnoreNotFound(w.Get(w.Context(), client.ObjectKey{Name: v1alpha1.QuarantineName(digest(n), model)}, q)))
	return q
}

// fail runs a job on a node that reports image n bad on a device of the model.
func (w *ward) fail(name, node string, n int, model string) *v1alpha1.FirmwareJob {
	w.Helper()
	j := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareJobSpec{
		NodeName: node, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{
			Name: nic, UniqueID: "nic", Version: fmt.Sprint(n), Digest: digest(n), Model: model,
		}}},
	}}
	require.NoError(w, w.Create(w.Context(), j))
	for _, kind := range []string{v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed} {
		meta.SetStatusCondition(&j.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUnhealthy})
	}
	j.Status.Blamed = []v1alpha1.BlamedDevice{{Device: nic, Message: "no link"}}
	require.NoError(w, w.Status().Update(w.Context(), j))
	return j
}

// decide is a person who sets the state of the quarantine.
func (w *ward) decide(n int, model string, state v1alpha1.QuarantineState) {
	w.Helper()
	q := w.get(n, model)
	before := q.DeepCopy()
	q.Spec.State = state
	require.NoError(w, w.Patch(w.Context(), q, client.MergeFrom(before)))
}

// await waits until the quarantine has that scope, and so many reports that count.
func (w *ward) await(n int, model string, scope v1alpha1.QuarantineScope, reports int) *v1alpha1.FirmwareQuarantine {
	w.Helper()
	var q *v1alpha1.FirmwareQuarantine
	require.Eventually(w, func() bool {
		q = w.get(n, model)
		counted := 0
		for _, r := range q.Status.Reports {
			if r.State == v1alpha1.ReportCounted {
				counted++
			}
		}
		return q.Status.Scope == scope && counted == reports && q.Status.ObservedGeneration == q.Generation
	}, 2*time.Minute, 20*time.Millisecond, "image %d on %s: %s, %d reports", n, model, scope, reports)
	apitest.RequireStatus(w, q, status.CurrentStatus)
	return q
}

// said are the types of all events, in order. An event follows the status that it is about, so they are complete only after the stop.
func (w *ward) said() (out []string) {
	for len(w.events.Events) > 0 {
		kind, _, _ := strings.Cut(<-w.events.Events, " ")
		out = append(out, kind)
	}
	return out
}

// indexed answers without an index: the API server has none for bad images, and the computation does not need it.
type indexed struct{ client.Client }

func (c indexed) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return c.Client.List(ctx, list)
}

// requireQuiet is the end of every test: these were its events, and a pass of another process writes nothing.
func (w *ward) requireQuiet(events ...string) {
	w.Helper()
	// A stop between a write and its event would take the event away.
	assert.Eventually(w, func() bool { return len(w.events.Events) >= len(events) }, 2*time.Minute, 20*time.Millisecond, "an event is missing")
	w.stop()
	assert.Equal(w, events, w.said())
	versions := func() map[string]string {
		var all v1alpha1.FirmwareQuarantineList
		require.NoError(w, w.List(w.Context(), &all))
		out := map[string]string{}
		for _, q := range all.Items {
			out[q.Name] = q.ResourceVersion
		}
		return out
	}
	before := versions()
	result, err := New(indexed{w.Client}, w.events, time.Now).Reconcile(w.Context(), pass)
	require.NoError(w, err)
	assert.Zero(w, result)
	assert.Equal(w, before, versions(), "a quarantine is written at rest")
}

// R002-26: An image that failed is quarantined: for its model alone, in an object of its own that outlives the job, with an event each time
// it reaches further.
func TestABadImageIsQuarantined(t *testing.T) {
	w := newWard(t)
	w.fail("j1", "n1", 2, model)
	q := w.await(2, model, v1alpha1.QuarantinePolicies, 1)
	assert.Equal(t, v1alpha1.QuarantineActive, q.Spec.State)
	assert.Equal(t, "2", q.Status.Version)
	r := q.Status.Reports[0]
	assert.WithinDuration(t, time.Now(), r.Time.Time, time.Minute)
	r.Time = metav1.Time{}
	assert.Equal(t, v1alpha1.QuarantineReport{
		Job: "j1", Node: "n1", Policy: v1alpha1.DefaultRolloutPolicy, Evidence: v1alpha1.EvidenceDevice, Message: "no link", State: v1alpha1.ReportCounted,
	}, r)

	w.fail("j2", "n1", 2, model)
	w.await(2, model, v1alpha1.QuarantinePolicies, 2)
	w.fail("j3", "n2", 2, model)
	w.await(2, model, v1alpha1.QuarantineFleet, 3)
	for _, name := range []string{"j1", "j2", "j3"} {
		require.NoError(t, w.Delete(t.Context(), &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	w.fail("j4", "n1", 2, "15b3:101f")
	w.await(2, "15b3:101f", v1alpha1.QuarantinePolicies, 1)
	w.await(2, model, v1alpha1.QuarantineFleet, 3)
	w.requireQuiet("Warning", "Warning", "Warning")
}

func TestAPersonDecides(t *testing.T) {
	w := newWard(t)
	w.fail("j1", "n1", 2, model)
	w.await(2, model, v1alpha1.QuarantinePolicies, 1)
	w.decide(2, model, v1alpha1.QuarantineConfirmed)
	w.await(2, model, v1alpha1.QuarantineFleet, 1)
	w.decide(2, model, v1alpha1.QuarantineLifted)
	w.await(2, model, v1alpha1.QuarantineNone, 0)
	w.fail("j2", "n1", 2, model)
	w.await(2, model, v1alpha1.QuarantinePolicies, 1)
	w.decide(2, model, v1alpha1.QuarantineActive)
	w.await(2, model, v1alpha1.QuarantinePolicies, 1)
	w.decide(2, model, v1alpha1.QuarantineLifted)
	q := w.await(2, model, v1alpha1.QuarantineNone, 0)
	assert.Len(t, q.Status.Reports, 2, "what was lifted stays listed")
	w.requireQuiet("Warning", "Warning", "Normal", "Warning", "Normal")
}

// Deleting is no lift: what a job reports comes back.
func TestADeletedQuarantineComesBack(t *testing.T) {
	w := newWard(t)
	w.fail("j1", "n1", 2, model)
	old := w.await(2, model, v1alpha1.QuarantinePolicies, 1)
	w.decide(2, model, v1alpha1.QuarantineLifted)
	w.await(2, model, v1alpha1.QuarantineNone, 0)
	require.NoError(t, w.Delete(t.Context(), old))
	again := w.await(2, model, v1alpha1.QuarantinePolicies, 1)
	assert.NotEqual(t, old.UID, again.UID)
	w.requireQuiet("Warning", "Normal", "Warning")
}

func TestAReportIsTakenBack(t *testing.T) {
	w := newWard(t)
	j := w.fail("j1", "n1", 2, model)
	w.await(2, model, v1alpha1.QuarantinePolicies, 1)
	j.Status.Blamed = nil
	require.NoError(t, w.Status().Update(t.Context(), j))
	q := w.await(2, model, v1alpha1.QuarantineNone, 0)
	assert.Equal(t, v1alpha1.ReportWithdrawn, q.Status.Reports[0].State)
	w.requireQuiet("Warning", "Normal")
}

// Somebody else's status is put right.
func TestAStatusOfSomebodyElseGoes(t *testing.T) {
	w := newWard(t)
	w.fail("j1", "n1", 2, model)
	q := w.await(2, model, v1alpha1.QuarantinePolicies, 1)
	q.Status.Scope, q.Status.Reports = v1alpha1.QuarantineNone, nil
	require.NoError(t, w.Status().Update(t.Context(), q))
	w.await(2, model, v1alpha1.QuarantinePolicies, 1)
	w.requireQuiet("Warning", "Warning")
}
