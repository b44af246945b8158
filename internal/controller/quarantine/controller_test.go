package quarantine

import (
	"context"
	"fmt"
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
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
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

func digest(n int) v1alpha1.Digest { return v1alpha1.Digest(fmt.Sprintf("sha256:%064x", n)) }

// source creates a source that holds the images of these numbers.
func (w *ward) source(name string, images ...int) {
	w.Helper()
	src := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareSourceSpec{Files: []v1alpha1.FirmwareFile{{
		URL: "https://example.com/fw.bin", Digest: digest(1),
		Images: []v1alpha1.ImageDescription{{Class: v1alpha1.ClassNIC, Version: "1"}},
	}}}}
	require.NoError(w, w.Create(w.Context(), src))
	w.fetched(name, images...)
}

// fetched writes the status of a source as the source controller does, based on what it read last.
func (w *ward) fetched(name string, images ...int) {
	w.Helper()
	before := w.get(name)
	w.fetchedSince(before, images...)
}

func (w *ward) fetchedSince(before *v1alpha1.FirmwareSource, images ...int) {
	w.Helper()
	src := before.DeepCopy()
	src.Status.ObservedGeneration = src.Generation
	src.Status.Images = nil
	for _, n := range images {
		src.Status.Images = append(src.Status.Images, v1alpha1.StoredImage{Version: fmt.Sprint(n), Class: v1alpha1.ClassNIC, Digest: digest(n)})
	}
	meta.SetStatusCondition(&src.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded, Message: fmt.Sprint(images),
	})
	require.NoError(w, fieldset.ApplyStore(w.Context(), w, src, src.Status))
}

func (w *ward) get(name string) *v1alpha1.FirmwareSource {
	w.Helper()
	src := &v1alpha1.FirmwareSource{}
	require.NoError(w, w.Get(w.Context(), client.ObjectKey{Name: name}, src))
	return src
}

// fail runs a job that reports image n bad on a device of the model.
func (w *ward) fail(name string, n int, model string) {
	w.Helper()
	j := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareJobSpec{
		NodeName: "n1", Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{
			Name: nic, UniqueID: "nic", Model: model, Version: fmt.Sprint(n), Digest: digest(n),
		}}},
	}}
	require.NoError(w, w.Create(w.Context(), j))
	meta.SetStatusCondition(&j.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAdmitted})
	j.Status.Blamed = []v1alpha1.BlamedDevice{{Device: nic, Message: "no link"}}
	require.NoError(w, w.Status().Update(w.Context(), j))
}

func (w *ward) lift(name string) {
	w.Helper()
	src := w.get(name)
	before := src.DeepCopy()
	src.Spec.LiftQuarantine += "again "
	require.NoError(w, w.Patch(w.Context(), src, client.MergeFrom(before)))
}

func (w *ward) eventually(name string, what string, is func(*v1alpha1.FirmwareSource) bool) {
	w.Helper()
	require.Eventually(w, func() bool { return is(w.get(name)) }, 30*time.Second, 20*time.Millisecond, "%s: %s", name, what)
}

func quarantined(models ...string) func(*v1alpha1.FirmwareSource) bool {
	return func(src *v1alpha1.FirmwareSource) bool {
		var got []string
		for _, e := range src.Status.Quarantine {
			if e.Scope != v1alpha1.QuarantineLifted {
				got = append(got, e.Model)
			}
		}
		is := meta.IsStatusConditionTrue(src.Status.Conditions, v1alpha1.ConditionQuarantined)
		return fmt.Sprint(got) == fmt.Sprint(models) && is == (len(models) > 0) &&
			meta.IsStatusConditionTrue(src.Status.Conditions, v1alpha1.ConditionReady)
	}
}

func (w *ward) warnings() int {
	n := 0
	for {
		select {
		case e := <-w.events.Events:
			if len(e) > 7 && e[:7] == "Warning" {
				n++
			}
		default:
			return n
		}
	}
}

// indexed answers without an index: the API server has none for bad images, and the computation does not need it.
type indexed struct{ client.Client }

func (c indexed) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return c.Client.List(ctx, list)
}

// requireQuiet is the end of every test: once the fetch has seen the last edit, kstatus sees the sources as they are, and a
// pass of another process writes nothing.
func (w *ward) requireQuiet(names ...string) {
	w.Helper()
	w.stop()
	versions := map[string]string{}
	for _, name := range names {
		src := w.get(name)
		src.Status.ObservedGeneration = src.Generation
		require.NoError(w, fieldset.ApplyStore(w.Context(), w, src, src.Status))
		src = w.get(name)
		apitest.RequireStatus(w, src, status.CurrentStatus)
		versions[name] = src.ResourceVersion
	}
	result, err := New(indexed{w.Client}, w.events, time.Now).Reconcile(w.Context(), pass)
	require.NoError(w, err)
	assert.Zero(w, result)
	for _, name := range names {
		assert.Equal(w, versions[name], w.get(name).ResourceVersion, "%s is written at rest", name)
	}
}

// B.3: every source that holds the image says so, with what to do, once; and it outlives the job.
func TestABadImageIsQuarantinedInEverySourceThatHoldsIt(t *testing.T) {
	w := newWard(t)
	w.source("a", 1, 2)
	w.source("b", 2)
	w.source("c", 3)
	w.fail("j1", 2, model)
	w.eventually("a", "is quarantined", quarantined(model))
	w.eventually("b", "is quarantined", quarantined(model))
	e := w.get("a").Status.Quarantine[0]
	assert.Equal(t, []string{string(digest(2)), "2", "n1", "j1", "no link"}, []string{string(e.Digest), e.Version, e.NodeName, e.Job, e.Message})
	c := condition(w.get("a"))
	assert.Contains(t, c.Message, "kubectl patch firmwaresource a")
	assert.Equal(t, 2, w.warnings(), "one event for each source")

	require.NoError(t, w.Delete(t.Context(), &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "j1"}}))
	w.fail("j2", 2, "15b3:101f")
	w.eventually("a", "keeps what the deleted job reported", quarantined(model, "15b3:101f"))
	w.eventually("b", "keeps what the deleted job reported", quarantined(model, "15b3:101f"))
	w.fetched("a", 1)
	w.source("late", 2)
	w.eventually("late", "holds the image too and says so", quarantined(model, "15b3:101f"))
	assert.True(t, quarantined(model, "15b3:101f")(w.get("a")), "the entries stay when the image is gone")
	assert.True(t, quarantined()(w.get("c")), "a source without the image says nothing")
	w.requireQuiet("a", "b", "c", "late")
}

func TestALiftOfOneSourceTakesTheEntriesFromAll(t *testing.T) {
	w := newWard(t)
	w.source("a", 2)
	w.source("b", 2)
	w.fail("j1", 2, model)
	w.eventually("a", "is quarantined", quarantined(model))
	w.eventually("b", "is quarantined", quarantined(model))
	w.lift("a")
	w.eventually("a", "is lifted", quarantined())
	w.eventually("b", "is lifted", quarantined())
	w.requireQuiet("a", "b")
}

// The source controller writes what it knew when the download began.
func TestNeitherWriterTakesBackWhatTheOtherWrote(t *testing.T) {
	w := newWard(t)
	w.source("a", 1)
	before := w.get("a")
	w.fail("j1", 1, model)
	w.eventually("a", "is quarantined", quarantined(model))
	w.fetchedSince(before, 1, 2)
	stale := w.get("a")
	assert.True(t, quarantined(model)(stale), "it stays quarantined")
	assert.Len(t, stale.Status.Images, 2)
	w.lift("a")
	w.eventually("a", "is lifted", quarantined())
	w.fetchedSince(stale, 1, 2, 3)
	assert.True(t, quarantined()(w.get("a")), "it stays lifted")
	assert.Len(t, w.get("a").Status.Images, 3)
	w.requireQuiet("a")
}
