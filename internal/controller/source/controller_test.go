package source

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/imageserver"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// bench is an operator's source controller without an API server.
type bench struct {
	t          *testing.T
	client     client.WithWatch
	reconciler *Reconciler
	events     *events.FakeRecorder
	store      *artifact.Store
	files      string
	writes     atomic.Int64
	now        time.Time
	// limits changes what may be fetched, from the next start on.
	limits func(*artifact.FetchConfig)
	// start begins a new process of the operator on the same store.
	start func()
}

func newBench(t *testing.T) *bench {
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)))
	b := &bench{t: t, files: t.TempDir(), events: events.NewFakeRecorder(100), now: time.Now()}
	root := t.TempDir()
	b.start = func() {
		config := artifact.FetchConfig{FileRoot: b.files, AllowLoopback: true, MaxBytes: 1 << 20,
			Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
		if b.limits != nil {
			b.limits(&config)
		}
		fetcher := artifact.NewFetcher(config)
		now := func() time.Time { return b.now }
		store, err := artifact.OpenStore(root, fetcher, now)
		require.NoError(t, err)
		b.store = store
		b.reconciler = &Reconciler{Client: b.client, Reader: b.client, Store: store, Namespace: "product", Events: b.events, Now: now}
	}
	b.client = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.FirmwareSource{}, &v1alpha1.FirmwareJob{}).Build(), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			b.writes.Add(1)
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			b.writes.Add(1)
			return c.SubResource(sub).Apply(ctx, o, opts...)
		},
	})
	b.start()
	return b
}

func (b *bench) file(name, content string) v1alpha1.FirmwareFile {
	require.NoError(b.t, os.WriteFile(filepath.Join(b.files, name), []byte(content), 0o600))
	return remote("file://"+filepath.Join(b.files, name), content)
}

func remote(url, content string) v1alpha1.FirmwareFile {
	sum := sha256.Sum256([]byte(content))
	return v1alpha1.FirmwareFile{URL: url, Digest: v1alpha1.Digest("sha256:" + hex.EncodeToString(sum[:])),
		Images: []v1alpha1.ImageDescription{{Class: v1alpha1.ClassNIC, Version: "22.41.1000", BoardIDs: []string{"MT_1"}}}}
}

func (b *bench) create(name string, files ...v1alpha1.FirmwareFile) {
	require.NoError(b.t, b.client.Create(b.t.Context(), &v1alpha1.FirmwareSource{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}, Spec: v1alpha1.FirmwareSourceSpec{Files: files},
		Status: v1alpha1.FirmwareSourceStatus{ObservedGeneration: -1},
	}))
}

func (b *bench) get(name string) *v1alpha1.FirmwareSource {
	var s v1alpha1.FirmwareSource
	require.NoError(b.t, b.client.Get(b.t.Context(), client.ObjectKey{Name: name}, &s))
	return &s
}

func (b *bench) reconcile(name string) (ctrl.Result, error) {
	return b.reconciler.Reconcile(b.t.Context(), b.get(name))
}

// requireStatus is the kstatus check of the house.
func (b *bench) requireStatus(name string, want status.Status) {
	b.t.Helper()
	s := b.get(name)
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
	require.NoError(b.t, err)
	u := &unstructured.Unstructured{Object: raw}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("FirmwareSource"))
	res, err := status.Compute(u)
	require.NoError(b.t, err)
	require.Equal(b.t, want, res.Status, "%s: %+v", res.Message, s.Status.Conditions)
}

func (b *bench) reason(name, condition string) string {
	for _, c := range b.get(name).Status.Conditions {
		if c.Type == condition {
			return string(c.Status) + " " + c.Reason
		}
	}
	return "absent"
}

// kept is every file of the store.
func (b *bench) kept() []string {
	root := filepath.Dir(filepath.Dir(b.store.Path(inventory.Digest{})))
	var out []string
	require.NoError(b.t, fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return err
	}))
	return out
}

func (b *bench) message(name, condition string) string {
	for _, c := range b.get(name).Status.Conditions {
		if c.Type == condition {
			return c.Message
		}
	}
	return ""
}

func zipped(t *testing.T, members ...string) string {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i := 0; i < len(members); i += 2 {
		m, err := w.Create(members[i])
		require.NoError(t, err)
		_, err = m.Write([]byte(members[i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.String()
}

func TestSourceBecomesReadyOnlyWhenEveryImageIsVerified(t *testing.T) { // R001-14, R001-17
	b := newBench(t)
	b.create("cx", b.file("fw.bin", "FIRMWARE"))
	_, err := b.reconcile("cx")
	require.NoError(t, err)

	s := b.get("cx")
	assert.Equal(t, "True Succeeded", b.reason("cx", "Ready"))
	require.Len(t, s.Status.Images, 1)
	assert.Equal(t, "22.41.1000", s.Status.Images[0].Version)
	assert.Contains(t, <-b.events.Events, "Normal Succeeded")
	b.requireStatus("cx", status.CurrentStatus)

	b.writes.Store(0)
	_, err = b.reconcile("cx")
	require.NoError(t, err)
	assert.Zero(t, b.writes.Load(), "a second look at a ready source writes nothing")
}

func TestNamesFailedStage(t *testing.T) { // R001-14
	notFound := httptest.NewServer(http.NotFoundHandler())
	defer notFound.Close()
	trouble := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }))
	defer trouble.Close()
	for name, tc := range map[string]struct {
		file    func(*bench) v1alpha1.FirmwareFile
		ready   string
		kstatus status.Status
		retried bool
	}{
		"an error page instead of an image": {
			file:  func(*bench) v1alpha1.FirmwareFile { return remote(notFound.URL+"/fw.bin", "FIRMWARE") },
			ready: "False DownloadFailed", kstatus: status.FailedStatus,
		},
		"a wrong digest": {
			file: func(b *bench) v1alpha1.FirmwareFile {
				f := b.file("fw.bin", "FIRMWARE")
				f.Digest = remote("", "OTHER").Digest
				return f
			},
			ready: "False DigestMismatch", kstatus: status.FailedStatus,
		},
		"a server in trouble": {
			file:  func(*bench) v1alpha1.FirmwareFile { return remote(trouble.URL, "FIRMWARE") },
			ready: "False DownloadFailed", kstatus: status.InProgressStatus, retried: true,
		},
		"no archive": {
			file: func(b *bench) v1alpha1.FirmwareFile {
				f := b.file("fw.zip", "FIRMWARE")
				f.Images[0].Path = "fw.bin"
				return f
			},
			ready: "False UnpackFailed", kstatus: status.FailedStatus,
		},
		"a file that is too large": {
			file:  func(b *bench) v1alpha1.FirmwareFile { return b.file("big", string(make([]byte, 2<<20))) },
			ready: "False DownloadFailed", kstatus: status.FailedStatus,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.create("src", tc.file(b))
			res, err := b.reconcile("src")
			assert.Equal(t, tc.retried, err != nil)
			assert.Equal(t, tc.retried, res.RequeueAfter == 0)
			assert.Equal(t, tc.ready, b.reason("src", "Ready"))
			assert.Empty(t, b.get("src").Status.Images)
			b.requireStatus("src", tc.kstatus)
		})
	}
}

func TestSourceSaysThatItsImagesCannotBePublished(t *testing.T) { // R001-14
	b := newBench(t)
	f := b.file("fw.bin", "FIRMWARE")
	f.Images[0].Version = strings.Repeat("1", 300) // no file system takes a directory of that name
	b.create("src", f)
	_, err := b.reconcile("src")
	require.Error(t, err, "it is tried again soon")
	assert.Equal(t, "False StorageFailed", b.reason("src", "Ready"))
	b.requireStatus("src", status.InProgressStatus)

	s := b.get("src")
	s.Spec.Files[0].Images[0].Version, s.Generation = "22.41.1000", 2
	require.NoError(t, b.client.Update(t.Context(), s))
	_, err = b.reconcile("src")
	require.NoError(t, err)
	assert.Equal(t, "True Succeeded", b.reason("src", "Ready"))
	b.requireStatus("src", status.CurrentStatus)
}

func TestSourceWhoseImagesContradictEachOtherIsNotVerified(t *testing.T) { // R001-14
	inArchive := func(b *bench, name, content string) v1alpha1.FirmwareFile {
		f := b.file(name, zipped(t, "fw.bin", content))
		f.Images[0].Path = "fw.bin"
		return f
	}
	for name, files := range map[string]func(*bench) []v1alpha1.FirmwareFile{
		"as the spec says": func(b *bench) []v1alpha1.FirmwareFile {
			return []v1alpha1.FirmwareFile{b.file("a", "A"), b.file("b", "B")}
		},
		"as an archive turns out to hold": func(b *bench) []v1alpha1.FirmwareFile {
			f := b.file("both.zip", zipped(t, "fw.bin", "A", "other.bin", "B"))
			f.Images[0].Path = "fw.bin"
			f.Images = append(f.Images, f.Images[0])
			f.Images[1].Path = "other.bin"
			return []v1alpha1.FirmwareFile{f}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.create("src", files(b)...)
			_, err := b.reconcile("src")
			require.NoError(t, err, "a person has to correct it")
			assert.Equal(t, "False InvalidSpec", b.reason("src", "Ready"))
			assert.Contains(t, b.message("src", "Ready"), `board id "MT_1"`)
			b.requireStatus("src", status.FailedStatus)
			assert.Empty(t, b.kept())
		})
	}

	b := newBench(t)
	sound := inArchive(b, "a.zip", "A")
	b.create("src", sound)
	_, err := b.reconcile("src")
	require.NoError(t, err)
	before := b.kept()
	b.edit("src", func(s *v1alpha1.FirmwareSource) { s.Spec.Files = append(s.Spec.Files, inArchive(b, "b.zip", "B")) })
	_, err = b.reconcile("src")
	require.NoError(t, err)
	assert.Equal(t, "False InvalidSpec", b.reason("src", "Ready"))
	assert.Len(t, b.get("src").Status.Images, 1, "what was verified before stays listed")
	assert.Equal(t, before, b.kept())
}

func TestReportsRepeatedFailureOnce(t *testing.T) {
	b := newBench(t)
	b.create("cx", remote("file://"+filepath.Join(b.files, "later.bin"), "FIRMWARE"))
	for range 3 {
		_, err := b.reconcile("cx")
		require.Error(t, err)
		assert.Equal(t, "False DownloadFailed", b.reason("cx", "Ready"))
	}
	assert.Len(t, b.events.Events, 1, "one event for the transition, none for a retry")
	assert.EqualValues(t, 3, b.writes.Load(), "finalizer, start and failure; nothing for a retry")
	b.requireStatus("cx", status.InProgressStatus)
}

func TestRecoversWhenCorrected(t *testing.T) {
	b := newBench(t)
	f := b.file("fw.bin", "FIRMWARE")
	right := f.Digest
	f.Digest = remote("", "OTHER").Digest
	b.create("src", f)
	_, _ = b.reconcile("src")
	s := b.get("src")
	s.Spec.Files[0].Digest, s.Generation = right, 2
	require.NoError(t, b.client.Update(t.Context(), s))
	_, err := b.reconcile("src")
	require.NoError(t, err)
	assert.Equal(t, "absent", b.reason("src", "Stalled"))
	assert.Equal(t, int64(2), b.get("src").Status.ObservedGeneration)
	b.requireStatus("src", status.CurrentStatus)
}

func TestSourceKeepsListingWhatIsVerifiedWhileAnEditIsFetched(t *testing.T) { // R001-14, R001-17
	b := newBench(t)
	first, second := b.file("a", "A"), b.file("b", "B")
	second.Images[0].Version = "22.42.1000"
	b.create("src", first, second)
	_, err := b.reconcile("src")
	require.NoError(t, err)
	require.Len(t, b.get("src").Status.Images, 2)

	third := b.file("c", "C")
	third.Images[0].Version = "22.43.1000"
	third.Digest = remote("", "OTHER").Digest
	s := b.get("src")
	s.Spec.Files, s.Generation = []v1alpha1.FirmwareFile{first, third}, 2
	require.NoError(t, b.client.Update(t.Context(), s))
	_, _ = b.reconcile("src")
	assert.Equal(t, "False DigestMismatch", b.reason("src", "Ready"))
	images := b.get("src").Status.Images
	require.Len(t, images, 1, "the new file failed, and the second is not asked for any more")
	assert.Equal(t, first.Digest, images[0].Digest)
	b.requireStatus("src", status.FailedStatus)
}

func TestADamagedImageIsFetchedAgainAndServedOnlyWhole(t *testing.T) { // R001-14
	b := newBench(t)
	f := b.file("fw.bin", "FIRMWARE")
	b.create("src", f)
	result, err := b.reconcile("src")
	require.NoError(t, err)
	digest, err := inventory.ParseDigest(string(f.Digest))
	require.NoError(t, err)
	damage := func() {
		require.NoError(t, os.Chmod(b.store.Path(digest), 0o600))
		require.NoError(t, os.WriteFile(b.store.Path(digest), []byte("GARBAGE!"), 0o600))
		require.NoError(t, os.Chtimes(b.store.Path(digest), time.Unix(0, 0), time.Unix(0, 0)))
	}
	served := func() (int, string) {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, imageserver.PathPrefix+digest.String(), nil)
		r.Header.Set("Authorization", "Bearer token")
		imageserver.Handler(b.store, everybody{}, logr.Discard(), imageserver.Limits{}).ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, later := range []func(){func() { b.now = b.now.Add(result.RequeueAfter) }, b.start} {
		damage()
		later()
		code, _ := served()
		assert.Equal(t, http.StatusNotFound, code, "what is damaged is not served")
		_, err = b.reconcile("src")
		require.NoError(t, err)
		code, body := served()
		assert.Equal(t, http.StatusOK, code)
		assert.Equal(t, "FIRMWARE", body)
		b.requireStatus("src", status.CurrentStatus)
	}

	damage()
	require.NoError(t, os.Remove(filepath.Join(b.files, "fw.bin")))
	b.now = b.now.Add(result.RequeueAfter)
	_, err = b.reconcile("src")
	require.Error(t, err)
	assert.Equal(t, "False DownloadFailed", b.reason("src", "Ready"))
	assert.Empty(t, b.get("src").Status.Images, "what is damaged is not offered")
	b.requireStatus("src", status.InProgressStatus)
}

// everybody may fetch images.
type everybody struct{}

func (everybody) Authenticate(context.Context, string, string) (string, error) { return "anybody", nil }

func TestQuietSourceCausesNoWrite(t *testing.T) {
	b := newBench(t)
	b.create("src", b.file("fw.bin", "FIRMWARE"))
	result, err := b.reconcile("src")
	require.NoError(t, err)
	require.NotZero(t, result.RequeueAfter, "an image may be damaged though no object changes")
	writes := b.writes.Load()
	for range 3 {
		b.now = b.now.Add(result.RequeueAfter)
		result, err = b.reconcile("src")
		require.NoError(t, err)
	}
	assert.Equal(t, writes, b.writes.Load())
}

func TestKeepsImagesOfActiveJobs(t *testing.T) {
	for name, change := range map[string]func(*bench) error{
		"the source is edited": func(b *bench) error {
			s := b.get("src")
			s.Spec.Files, s.Generation = []v1alpha1.FirmwareFile{b.file("new", "NEW")}, 2
			return b.client.Update(b.t.Context(), s)
		},
		"the source is deleted": func(b *bench) error {
			return b.client.Delete(b.t.Context(), b.get("src"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			flashed, back, unused, assigned, between := b.file("a", "A"), b.file("b", "B"), b.file("c", "C"), b.file("d", "D"), b.file("e", "E")
			back.Images[0].Version, unused.Images[0].Version, assigned.Images[0].Version = "22.40.1000", "22.39.1000", "22.38.1000"
			between.Images[0].Version = "22.37.1000"
			b.create("src", flashed, back, unused, assigned, between)
			b.create("other", b.file("other", "OTHER"))
			_, err := b.reconcile("src")
			require.NoError(t, err)
			job := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "job"}, Spec: v1alpha1.FirmwareJobSpec{
				Task: v1alpha1.JobTask{Devices: []v1alpha1.TaskDevice{
					{Digest: flashed.Digest, RollbackDigest: back.Digest},
				}},
			}}
			require.NoError(t, b.client.Create(t.Context(), job))
			inStore := func(f v1alpha1.FirmwareFile) bool {
				digest, err := inventory.ParseDigest(string(f.Digest))
				require.NoError(t, err)
				_, err = os.Stat(b.store.Path(digest))
				return err == nil
			}
			device := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: v1alpha1.NodeDeviceSpec{
				Firmware: &v1alpha1.DesiredFirmware{Digest: assigned.Digest, Path: []v1alpha1.UpgradeStep{{Digest: between.Digest}, {}}},
			}}
			require.NoError(t, b.client.Create(t.Context(), device))
			require.NoError(t, change(b))
			_, err = b.reconcile("src")
			require.NoError(t, err)
			collected := func() ctrl.Result {
				_, err := b.reconcile("other")
				require.NoError(t, err)
				b.now = b.now.Add(time.Hour)
				result, err := b.reconcile("other")
				require.NoError(t, err)
				return result
			}
			result := collected()
			assert.NotZero(t, result.RequeueAfter, "the end of the job is followed by another collection")
			assert.True(t, inStore(flashed))
			assert.True(t, inStore(back))
			assert.True(t, inStore(assigned))
			assert.True(t, inStore(between), "an image on the way to the assigned one")
			assert.Equal(t, name == "the source is deleted", inStore(unused), "a source that is deleted waits for the job")

			job.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue}}
			require.NoError(t, b.client.Status().Update(t.Context(), job))
			require.NoError(t, b.client.Delete(t.Context(), device))
			if name == "the source is deleted" {
				_, err = b.reconcile("src")
				require.NoError(t, err)
			}
			collected()
			for _, f := range []v1alpha1.FirmwareFile{flashed, back, unused, assigned, between} {
				assert.False(t, inStore(f))
			}
		})
	}
}

func TestSourceDeletionWaitsUntilNothingRefersToIt(t *testing.T) { // R001-18
	b := newBench(t)
	b.create("src", b.file("fw.bin", "FIRMWARE"))
	_, err := b.reconcile("src")
	require.NoError(t, err)
	ref := v1alpha1.SourceReference{Name: "src"}
	template := &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: v1alpha1.FirmwareTemplateSpec{Rules: []v1alpha1.FirmwareRule{{Name: "r", SourceRef: ref}}}}
	pinned := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.NodeFirmwareSpec{Pins: []v1alpha1.FirmwareRule{{Name: "p", SourceRef: ref}}}}
	require.NoError(t, b.client.Create(t.Context(), template))
	require.NoError(t, b.client.Create(t.Context(), pinned))
	image := b.get("src").Status.Images[0]
	job := func(name string, u v1alpha1.TaskDevice) *v1alpha1.FirmwareJob {
		j := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareJobSpec{Task: v1alpha1.JobTask{Devices: []v1alpha1.TaskDevice{u}}}}
		require.NoError(t, b.client.Create(t.Context(), j))
		return j
	}
	flashes := job("flashes", v1alpha1.TaskDevice{Digest: image.Digest, RollbackDigest: image.Digest})
	rollsBack := job("rolls-back", v1alpha1.TaskDevice{RollbackDigest: image.Digest})
	byHand := job("by-hand", v1alpha1.TaskDevice{Digest: image.Digest})
	elsewhere := job("of-another-source", v1alpha1.TaskDevice{Digest: "sha256:00"})
	ended := job("ended", v1alpha1.TaskDevice{Digest: image.Digest})
	ended.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue}}
	require.NoError(t, b.client.Status().Update(t.Context(), ended))
	require.NoError(t, b.client.Delete(t.Context(), b.get("src")))

	for i, user := range []client.Object{template, pinned, flashes, rollsBack, byHand} {
		_, err = b.reconcile("src")
		require.NoError(t, err)
		assert.Equal(t, "False InUse", b.reason("src", "Ready"))
		assert.Contains(t, meta.FindStatusCondition(b.get("src").Status.Conditions, "Ready").Message, user.GetName())
		assert.Contains(t, meta.FindStatusCondition(b.get("src").Status.Conditions, "Ready").Message, []string{"5 objects", "4 objects", "3 objects", "2 objects", "1 object "}[i])
		assert.Contains(t, meta.FindStatusCondition(b.get("src").Status.Conditions, "Ready").Message, "kubectl get fwt,nfw,fwj")
		b.requireStatus("src", status.TerminatingStatus)
		require.Len(t, b.reconciler.deletedSources(t.Context(), user), 1)
		require.NoError(t, b.client.Delete(t.Context(), user))
	}
	_, err = b.reconcile("src")
	require.NoError(t, err)
	err = b.client.Get(t.Context(), client.ObjectKey{Name: "src"}, &v1alpha1.FirmwareSource{})
	assert.True(t, apierrors.IsNotFound(err))
	assert.FileExists(t, b.store.Path(must(inventory.ParseDigest(string(image.Digest)))))
	require.NoError(t, b.client.Delete(t.Context(), elsewhere))
	require.NoError(t, b.reconciler.collect(t.Context()))
	b.now = b.now.Add(time.Hour)
	require.NoError(t, b.reconciler.collect(t.Context()))
	entries, err := filepath.Glob(filepath.Join(filepath.Dir(b.store.Path([32]byte{})), "*"))
	require.NoError(t, err)
	assert.Empty(t, entries, "image %s is deleted with its source", image.Digest)
}

// An image that is in store and quarantined is not flashed, and who looks at the source shall see that.
func TestSourceSaysWhichOfItsImagesAreQuarantined(t *testing.T) {
	b := newBench(t)
	b.create("src", b.file("fw.bin", "FIRMWARE"))
	_, err := b.reconcile("src")
	require.NoError(t, err)
	message := func() string { return meta.FindStatusCondition(b.get("src").Status.Conditions, "Ready").Message }
	plain := message()
	q := &v1alpha1.FirmwareQuarantine{
		ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec:       v1alpha1.FirmwareQuarantineSpec{Digest: b.get("src").Status.Images[0].Digest, Model: "15b3:101d", State: v1alpha1.QuarantineActive},
		Status:     v1alpha1.FirmwareQuarantineStatus{Scope: v1alpha1.QuarantinePolicies},
	}
	require.NoError(t, b.client.Create(t.Context(), q))
	other := &v1alpha1.FirmwareQuarantine{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Status: q.Status}
	other.Spec.Digest = "sha256:00"
	require.NoError(t, b.client.Create(t.Context(), other))
	assert.Equal(t, []string{"src"}, named(b.reconciler.listing(t.Context(), q)))
	assert.Empty(t, b.reconciler.listing(t.Context(), other))
	_, err = b.reconcile("src")
	require.NoError(t, err)
	assert.Equal(t, plain+" Quarantined, and not flashed there: version 22.41.1000 on model 15b3:101d. To look: kubectl get fwq", message())
	assert.Equal(t, "True Succeeded", b.reason("src", "Ready"))

	q.Spec.State = v1alpha1.QuarantineLifted
	q.Status.Scope = v1alpha1.QuarantineNone
	require.NoError(t, b.client.Update(t.Context(), q))
	_, err = b.reconcile("src")
	require.NoError(t, err)
	assert.Equal(t, plain, message())
}

func named(requests []ctrl.Request) (out []string) {
	for _, r := range requests {
		out = append(out, r.Name)
	}
	return out
}

func TestBrokenSourceStopsNoOther(t *testing.T) { // R001-19
	b := newBench(t)
	broken := b.file("a", "A")
	broken.Digest = remote("", "OTHER").Digest
	b.create("broken", broken)
	b.create("sound", b.file("b", "B"))
	_, _ = b.reconcile("broken")
	_, err := b.reconcile("sound")
	require.NoError(t, err)
	_, err = b.reconcile("broken")
	require.NoError(t, err)
	b.requireStatus("broken", status.FailedStatus)
	b.requireStatus("sound", status.CurrentStatus)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestTheEndOfAJobWakesTheDeletionThatWaitsForIt(t *testing.T) {
	var runs, over v1alpha1.FirmwareJob
	over.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue}}
	assert.True(t, jobEnded.Update(event.UpdateEvent{ObjectOld: &runs, ObjectNew: &over}))
	assert.False(t, jobEnded.Update(event.UpdateEvent{ObjectOld: &runs, ObjectNew: &runs}))
	assert.False(t, jobEnded.Update(event.UpdateEvent{ObjectOld: &over, ObjectNew: &over}))
	assert.True(t, jobEnded.Delete(event.DeleteEvent{Object: &runs}))
}
