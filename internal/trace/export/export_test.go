package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/otlp"
	jobtrace "github.com/nodefirmware/node-firmware-operator/internal/trace"
)

var began = time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)

func at(minutes int) metav1.Time {
	return metav1.NewTime(began.Add(time.Duration(minutes) * time.Minute))
}

// written is a log that several goroutines write.
type written struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

func begin(t *testing.T, endpoint string, log *slog.Logger) *Exporter {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	e, err := Start(t.Context(), config.Traces{Endpoint: endpoint, Protocol: config.TracesHTTP}, log)
	require.NoError(t, err)
	return e
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// fleet is an API server with what the watcher reads. Only what a test needs of a cache is there.
type fleet struct {
	cache.Cache
	client.Client
}

func (f fleet) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return f.Client.Get(ctx, key, o, opts...)
}

func (f fleet) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return f.Client.List(ctx, list, opts...)
}

func newWatcher(t *testing.T, e *Exporter, log *slog.Logger, objects ...client.Object) *Watcher {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithReturnManagedFields().Build()
	w := &Watcher{Exporter: e, Cache: fleet{Client: api}, Direct: api, Log: log, Now: func() time.Time { return at(60).Time }}
	w.begin()
	return w
}

// drain does what waits for the workers of the watcher.
func drain(w *Watcher) {
	for _, b := range []*backlog{w.spans, w.edits} {
		for len(b.work) > 0 {
			(<-b.work)()
			b.done()
		}
	}
}

// template is edited for the third time at minute 1.
func template(name string) *v1alpha1.FirmwareTemplate {
	edited := at(1)
	return &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name + "-uid"), Generation: 3, CreationTimestamp: at(-100),
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: v1alpha1.GroupVersion.String(), Time: &edited,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`),
		}},
	}}
}

// device gets its firmware from the template.
func device(name, template string) *v1alpha1.NodeDevice {
	return &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeDeviceSpec{Origin: []v1alpha1.Origin{
		{Kind: v1alpha1.OriginTemplate, Name: template, UID: template + "-uid", Generation: 3},
	}}}
}

// planned is a job for the devices at minute 3, as the planner makes it.
func planned(e *Exporter, name string, devices ...*v1alpha1.NodeDevice) *v1alpha1.FirmwareJob {
	j := &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: at(3)},
		Spec:       v1alpha1.FirmwareJobSpec{NodeName: "n1", Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate}},
	}
	var all []v1alpha1.NodeDevice
	for _, d := range devices {
		j.Spec.Task.Devices = append(j.Spec.Task.Devices, v1alpha1.TaskDevice{Name: d.Name, FromVersion: "1", Version: "2", Digest: "sha256:x"})
		all = append(all, *d)
	}
	e.Mark(j, all)
	return j
}

func condition(kind, reason string, minute int) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: at(minute)}
}

func step(name, device string, attempt int32, state v1alpha1.StepState, from, to int) v1alpha1.JobStep {
	s := v1alpha1.JobStep{Name: name, Device: device, State: state, Attempt: attempt, StartTime: new(at(from))}
	if to > 0 {
		s.CompletionTime = new(at(to))
	}
	return s
}

// story is what the job says one time after the other.
func story(j *v1alpha1.FirmwareJob) (out []*v1alpha1.FirmwareJob) {
	is := j.DeepCopy()
	say := func(change func(*v1alpha1.FirmwareJobStatus)) {
		is = is.DeepCopy()
		change(&is.Status)
		is.ResourceVersion = strconv.Itoa(len(out))
		out = append(out, is)
	}
	say(func(*v1alpha1.FirmwareJobStatus) {})
	say(func(s *v1alpha1.FirmwareJobStatus) {
		s.Conditions = append(s.Conditions, condition(v1alpha1.ConditionAdmitted, v1alpha1.ReasonAdmitted, 4))
	})
	say(func(s *v1alpha1.FirmwareJobStatus) {
		s.Steps = []v1alpha1.JobStep{
			step("flash", "nic", 1, v1alpha1.StepRunning, 5, 0), {Name: "reboot", State: v1alpha1.StepPending}, {Name: "archive", State: v1alpha1.StepSkipped},
		}
	})
	say(func(s *v1alpha1.FirmwareJobStatus) {
		s.Steps[0] = step("flash", "nic", 1, v1alpha1.StepSucceeded, 5, 9)
	})
	say(func(s *v1alpha1.FirmwareJobStatus) { s.Steps[1] = step("reboot", "", 1, v1alpha1.StepRunning, 9, 0) })
	say(func(s *v1alpha1.FirmwareJobStatus) { s.Steps[1] = step("reboot", "", 1, v1alpha1.StepSucceeded, 9, 14) })
	say(func(s *v1alpha1.FirmwareJobStatus) {
		s.Steps[1] = step("reboot", "", 2, v1alpha1.StepSucceeded, 15, 19)
	}) // begun again after its end
	say(func(s *v1alpha1.FirmwareJobStatus) {
		s.Conditions = append(s.Conditions, condition(v1alpha1.ConditionComplete, v1alpha1.ReasonSucceeded, 20))
		s.CompletionTime, s.Verdict = new(at(20)), &v1alpha1.HealthVerdict{Result: v1alpha1.HealthResultHealthy}
	})
	return out
}

// tree is what arrived: each span with its parent, its times in minutes, and what became of it.
func tree(spans []otlp.Span) (out []string) {
	names := map[string]string{}
	for _, s := range spans {
		names[s.ID] = s.Name
	}
	minute := func(t time.Time) string { return fmt.Sprintf("%g", t.Sub(began).Minutes()) }
	for _, s := range spans {
		line := names[s.Parent] + "/" + s.Name + " " + minute(s.Start) + "-" + minute(s.End)
		if result := s.Attributes[attrResult]; result != "" {
			line += " " + result
		}
		out = append(out, line)
	}
	return out
}

// play has the watcher see all that the job says, and export it.
func play(t *testing.T, w *Watcher, said []*v1alpha1.FirmwareJob) {
	t.Helper()
	show(t, w, said)
	drain(w)
}

// show has the watcher see all that the job says.
func show(t *testing.T, w *Watcher, said []*v1alpha1.FirmwareJob) {
	t.Helper()
	w.added(t.Context(), said[0], false)
	for i := 1; i < len(said); i++ {
		w.changed(said[i-1], said[i])
	}
}

var wholeTree = []string{
	"/edit 1-1", "edit/match 1-3", "job/admission 3-4", "job/flash 5-9 Succeeded", "job/reboot 9-14 Succeeded", "job/reboot 15-19 Succeeded",
	"job/verdict 19-20 Complete", "match/job 3-20 Complete",
}

func TestOneTraceFromEditToVerdict(t *testing.T) { // R000-70
	to := otlp.Receive()
	t.Cleanup(to.Close)
	var log written
	e := begin(t, to.URL, discard())
	nic := device("nic", "nics")
	w := newWatcher(t, e, slog.New(slog.NewTextHandler(&log, nil)), template("nics"), nic)
	play(t, w, story(planned(e, "j", nic)))
	second := planned(e, "k", nic)
	w.added(t.Context(), second, false)
	drain(w)
	e.Close(discard())
	assert.ElementsMatch(t, wholeTree, tree(to.Spans()), "the second job repeats neither edit nor match")
	id := jobtrace.Parent(second).TraceID().String()
	for _, s := range to.Spans() {
		assert.Equal(t, id, s.Trace)
		assert.Equal(t, "firmware-operator", s.Attributes["service.name"])
	}
	job := to.Named("job")[0]
	assert.Equal(t, []string{"n1", "j", "nic", "Succeeded"}, []string{job.Attributes[attrNode], job.Attributes[attrJob], job.Attributes[attrDevices], job.Attributes[attrReason]})
	flash := to.Named("flash")[0]
	assert.Equal(t, []string{"nic", "1", "2", "1"}, []string{flash.Attributes[attrDevice], flash.Attributes[attrFrom], flash.Attributes[attrTo], flash.Attributes[attrAttempt]})
	assert.Equal(t, "Healthy", to.Named("verdict")[0].Attributes[attrHealth])
	assert.Equal(t, 4, strings.Count(log.String(), "traceID="+id), log.String())
}

// What one process had not sent when it was killed is exported by the next one, with the same ids, but for an attempt that the status has no more.
func TestTraceSurvivesAKill(t *testing.T) { // R000-70
	nic := device("nic", "nics")
	ids := map[string]bool{}
	for killed := range 8 {
		t.Run(strconv.Itoa(killed), func(t *testing.T) {
			first, second := otlp.Receive(), otlp.Receive()
			t.Cleanup(first.Close)
			t.Cleanup(second.Close)
			e := begin(t, first.URL, discard())
			said := story(planned(e, "j", nic))
			play(t, newWatcher(t, e, discard(), template("nics"), nic), said[:killed+1])
			e.Close(discard())
			e = begin(t, second.URL, discard())
			next := newWatcher(t, e, discard(), template("nics"), nic)
			next.added(t.Context(), said[killed], true)
			for i := killed + 1; i < len(said); i++ {
				next.changed(said[i-1], said[i])
			}
			drain(next)
			e.Close(discard())
			want := wholeTree
			if killed >= 6 { // the reboot was begun again, and nothing says any more when it was before
				want = slices.DeleteFunc(slices.Clone(wholeTree), func(s string) bool { return s == "job/reboot 9-14 Succeeded" })
			}
			assert.ElementsMatch(t, want, tree(second.Spans()))
			for _, s := range slices.Concat(first.Spans(), second.Spans()) {
				ids[s.ID] = true
			}
		})
	}
	assert.Len(t, ids, len(wholeTree))
}

func TestOldJobsAreNotToldAgain(t *testing.T) {
	to := otlp.Receive()
	t.Cleanup(to.Close)
	e := begin(t, to.URL, discard())
	said := story(planned(e, "j"))
	w := newWatcher(t, e, discard())
	w.Now = func() time.Time { return at(20).Add(memory + time.Second) }
	w.added(t.Context(), said[len(said)-1], true)
	drain(w)
	e.Close(discard())
	assert.Empty(t, to.Spans())
}

// What a job does for several templates is in the trace of each.
func TestEachTemplateLeadsToTheResult(t *testing.T) {
	to := otlp.Receive()
	t.Cleanup(to.Close)
	e := begin(t, to.URL, discard())
	nic, disk := device("nic", "nics"), device("disk", "disks")
	w := newWatcher(t, e, discard(), template("nics"), template("disks"), nic, disk)
	play(t, w, story(planned(e, "j", nic, disk)))
	e.Close(discard())
	jobs := to.Named("job")
	require.Len(t, jobs, 2)
	assert.NotEqual(t, jobs[0].Trace, jobs[1].Trace)
	assert.Equal(t, []string{jobs[1].Trace + "/" + jobs[1].Parent}, jobs[0].Links, "the match of the other trace")
	assert.Equal(t, []string{jobs[0].Trace + "/" + jobs[0].ID}, jobs[1].Links, "the way to the steps")
	assert.Len(t, to.Named("match"), 2)
	assert.Len(t, to.Named("flash"), 1)
}

func TestJobOfAPersonHasItsOwnTrace(t *testing.T) {
	to := otlp.Receive()
	t.Cleanup(to.Close)
	e := begin(t, to.URL, discard())
	w := newWatcher(t, e, discard())
	play(t, w, story(planned(e, "alone"))) // no device says where it comes from
	pipeline := planned(e, "built")
	pipeline.Annotations = map[string]string{v1alpha1.TraceParentAnnotation: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	play(t, w, story(pipeline))
	e.Close(discard())
	jobs := to.Named("job")
	require.Len(t, jobs, 2)
	assert.Empty(t, jobs[0].Parent)
	assert.Equal(t, jobtrace.OfJob("alone").String(), jobs[0].Trace)
	assert.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736/00f067aa0ba902b7", jobs[1].Trace+"/"+jobs[1].Parent)
	traces := map[string]int{}
	for _, s := range to.Spans() {
		traces[s.Trace]++
	}
	assert.Equal(t, map[string]int{jobs[0].Trace: len(wholeTree) - 2, jobs[1].Trace: len(wholeTree) - 2}, traces, "each without edit and match")
}

func TestResultsOfJobs(t *testing.T) {
	failed := func(more ...metav1.Condition) func(*v1alpha1.FirmwareJobStatus) {
		return func(s *v1alpha1.FirmwareJobStatus) {
			s.Conditions = append(more, condition(v1alpha1.ConditionFailed, v1alpha1.ReasonWriteFailed, 8))
			s.Steps = []v1alpha1.JobStep{step("flash", "nic", 2, v1alpha1.StepRunning, 5, 0)} // nobody is left to report it
		}
	}
	for name, c := range map[string]struct {
		status func(*v1alpha1.FirmwareJobStatus)
		want   []string
		fails  bool
	}{
		"failed":      {failed(), []string{"job/flash 5-8 Running", "job/verdict 8-8 Failed", "/job 3-8 Failed"}, true},
		"held":        {failed(condition(v1alpha1.ConditionHeld, "x", 8)), []string{"job/flash 5-8 Running", "job/verdict 8-8 Held", "/job 3-8 Held"}, true},
		"rolled back": {failed(condition(v1alpha1.ConditionRolledBack, "x", 8)), []string{"job/flash 5-8 Running", "job/verdict 8-8 RolledBack", "/job 3-8 RolledBack"}, true},
		"withdrawn":   {func(*v1alpha1.FirmwareJobStatus) {}, []string{"/job 3-60 Withdrawn"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			to := otlp.Receive()
			t.Cleanup(to.Close)
			e := begin(t, to.URL, discard())
			w := newWatcher(t, e, discard())
			queued := planned(e, "j")
			w.added(t.Context(), queued, false)
			is := queued.DeepCopy()
			c.status(&is.Status)
			w.changed(queued, is)
			w.deleted(is)
			drain(w)
			e.Close(discard())
			assert.Equal(t, c.want, tree(to.Spans()))
			for _, s := range to.Spans() {
				assert.Equal(t, c.fails, s.Failed, s.Name)
			}
		})
	}
}

// The collector takes the connection and never answers. Neither the watcher nor the end of the process waits for it.
func TestHungCollectorHoldsNobodyUp(t *testing.T) {
	to := otlp.Hang()
	t.Cleanup(to.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", strconv.Itoa(int((24 * time.Hour).Milliseconds()))) // so that only the product's own bound ends it
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", strconv.Itoa(int((24 * time.Hour).Milliseconds())))
	var log written
	e := begin(t, to.URL, slog.New(slog.NewTextHandler(&log, nil)))
	nic := device("nic", "nics")
	w := newWatcher(t, e, discard(), template("nics"), nic)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go w.spans.run(ctx)
	go w.edits.run(ctx)
	for i := range 600 { // more spans than the queue of the library holds
		show(t, w, story(planned(e, "j"+strconv.Itoa(i), nic)))
	}
	require.Eventually(t, to.Asked, time.Minute, 10*time.Millisecond)
	e.Close(slog.New(slog.NewTextHandler(&log, nil)))
	assert.Contains(t, log.String(), "the collector did not take them in time")
}

// counted counts what the watcher asks for.
type counted struct {
	cache.Cache
	client.Reader
	gets, lists int
}

func (c *counted) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	c.gets++
	return c.Reader.Get(ctx, key, o, opts...)
}

func (c *counted) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.lists++
	return c.Reader.List(ctx, list, opts...)
}

// Pins are an edit for each node, and all of them come at once when an operator starts.
func TestEditsHoldNoHandlerUp(t *testing.T) {
	const nodes = 1000
	to := otlp.Receive()
	t.Cleanup(to.Close)
	e := begin(t, to.URL, discard())
	var objects []client.Object
	var jobs []*v1alpha1.FirmwareJob
	for i := range nodes {
		d := device("d"+strconv.Itoa(i), "pins"+strconv.Itoa(i))
		objects, jobs = append(objects, d), append(jobs, planned(e, "j"+strconv.Itoa(i), d))
	}
	earlier := planned(e, "earlier", objects[0].(*v1alpha1.NodeDevice))
	earlier.CreationTimestamp = at(2)
	w := newWatcher(t, e, discard(), objects...)
	cached, direct := &counted{Reader: w.Cache}, &counted{Reader: w.Direct}
	w.Cache, w.Direct = cached, direct
	for _, j := range append(jobs, earlier) {
		w.added(t.Context(), j, true)
	}
	assert.Zero(t, direct.gets, "the handler asked the API server")
	drain(w)
	e.Close(discard())
	assert.Equal(t, nodes, direct.gets, "one for each edit")
	assert.Zero(t, cached.lists+direct.lists)
	matches := map[string]int{}
	for _, s := range tree(to.Named("match")) {
		matches[s]++
	}
	assert.Equal(t, map[string]int{"/match 2-2": 1, "/match 3-3": nodes - 1}, matches, "each lasts until its first job")
}

func TestTracesGoWithTheirJobs(t *testing.T) {
	to := otlp.Receive()
	t.Cleanup(to.Close)
	e := begin(t, to.URL, discard())
	nic := device("nic", "nics")
	w := newWatcher(t, e, discard(), template("nics"), nic)
	first, second := planned(e, "j", nic), planned(e, "k", nic)
	w.added(t.Context(), first, true)
	w.added(t.Context(), second, true)
	w.deleted(first)
	assert.Len(t, w.known, 1)
	alone := second.DeepCopy()
	alone.Annotations = nil
	w.changed(second, alone)
	w.deleted(alone)
	assert.Empty(t, w.known)
	e.Close(discard())
}

// A start exports the last hour at once, which is more than the queue of the library holds.
func TestStartDropsNoSpan(t *testing.T) {
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "8")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
	const jobs = 100
	to := otlp.Receive()
	t.Cleanup(to.Close)
	e := begin(t, to.URL, discard())
	w := newWatcher(t, e, discard())
	for i := range jobs {
		said := story(planned(e, "j"+strconv.Itoa(i)))
		w.added(t.Context(), said[len(said)-1], true)
	}
	drain(w)
	e.Close(discard())
	assert.Len(t, to.Spans(), jobs*5, "admission, flash, reboot, verdict and job")
}

func TestFullBacklogSaysSo(t *testing.T) {
	var log written
	b := newBacklog("edits", 2, slog.New(slog.NewTextHandler(&log, nil)))
	var taken, done int
	for range 5 {
		if b.add(func() { done++ }) {
			taken++
		}
	}
	for len(b.work) > 0 {
		(<-b.work)()
		b.done()
	}
	assert.Equal(t, []int{2, 2}, []int{taken, done})
	assert.Equal(t, 1, strings.Count(log.String(), "not exported as fast"), log.String())
	assert.Contains(t, log.String(), "dropped=3")
	assert.True(t, b.add(func() {}))
}

func TestSamplerOfTheEnvironment(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
	to := otlp.Receive()
	t.Cleanup(to.Close)
	e := begin(t, to.URL, discard())
	nic := device("nic", "nics")
	w := newWatcher(t, e, discard(), template("nics"), nic)
	j := planned(e, "j", nic)
	assert.True(t, strings.HasSuffix(j.Annotations[v1alpha1.TraceParentAnnotation], "-00"), "others do not sample it either")
	play(t, w, story(j))
	sampled := planned(e, "k")
	sampled.Annotations = map[string]string{v1alpha1.TraceParentAnnotation: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	play(t, w, story(sampled))
	e.Close(discard())
	assert.Len(t, to.Named("job"), 1)
	assert.Empty(t, to.Named("edit"))
}

// The variables of the collector hold credentials, and so do messages of jobs.
func TestNoCredentialIsTold(t *testing.T) {
	to := otlp.Receive()
	gone := strings.Replace(to.URL, "http://", "http://me:hunter2@", 1)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization hunter2,bad=%zhunter2")
	var log written
	e := begin(t, to.URL, slog.New(slog.NewTextHandler(&log, nil)))
	said := story(planned(e, "j"))
	for _, j := range said {
		for i := range j.Status.Steps {
			j.Status.Steps[i].Message = "fetch https://me:hunter2@mirror"
		}
		for i := range j.Status.Conditions {
			j.Status.Conditions[i].Message = "fetch https://me:hunter2@mirror"
		}
	}
	play(t, newWatcher(t, e, slog.New(slog.NewTextHandler(&log, nil))), said)
	e.Close(discard())
	assert.NotEmpty(t, to.Spans())
	assert.NotContains(t, fmt.Sprint(to.Spans()), "hunter2")
	to.Close()
	e = begin(t, gone, slog.New(slog.NewTextHandler(&log, nil)))
	play(t, newWatcher(t, e, discard()), said)
	e.Close(slog.New(slog.NewTextHandler(&log, nil)))
	assert.Contains(t, log.String(), "were not exported")
	assert.NotContains(t, log.String(), "hunter2")
}

// It comes from the chart or an overlay, and is no reason to leave a cluster without its operator.
func TestBadResourceStopsNobody(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "hunter2,cluster=east")
	to := otlp.Receive()
	t.Cleanup(to.Close)
	var log written
	e := begin(t, to.URL, slog.New(slog.NewTextHandler(&log, nil)))
	play(t, newWatcher(t, e, discard()), story(planned(e, "j")))
	e.Close(discard())
	require.Len(t, to.Named("job"), 1)
	assert.Equal(t, "east", to.Named("job")[0].Attributes["cluster"], "what is well formed")
	assert.Contains(t, log.String(), "OTEL_RESOURCE_ATTRIBUTES")
	assert.NotContains(t, log.String(), "hunter2")
}

// The library makes the whole answer of a collector part of its error.
func TestLongAnswerIsClipped(t *testing.T) {
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, strings.Repeat("<html>", 100_000))
	}))
	t.Cleanup(to.Close)
	var log written
	e := begin(t, to.URL, slog.New(slog.NewTextHandler(&log, nil)))
	play(t, newWatcher(t, e, discard()), story(planned(e, "j")))
	e.Close(slog.New(slog.NewTextHandler(&log, nil)))
	assert.Contains(t, log.String(), "were not exported")
	assert.Contains(t, log.String(), "<html>")
	assert.Less(t, len(log.String()), 3*maxAnswer)
}

// grpcCollector keeps how many spans it was sent.
type grpcCollector struct {
	collector.UnimplementedTraceServiceServer
	names chan string
}

func (c grpcCollector) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	for _, from := range r.ResourceSpans {
		for _, scope := range from.ScopeSpans {
			for _, s := range scope.Spans {
				c.names <- s.Name
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func TestExportsByGRPC(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	to := grpcCollector{names: make(chan string, 100)}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, to)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	endpoint := "http://" + listener.Addr().String()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	e, err := Start(t.Context(), config.Traces{Endpoint: endpoint, Protocol: config.TracesGRPC}, discard())
	require.NoError(t, err)
	play(t, newWatcher(t, e, discard()), story(planned(e, "j")))
	select {
	case name := <-to.names:
		assert.Equal(t, "admission", name)
	case <-time.After(5 * time.Minute):
		assert.Fail(t, "nothing arrived")
	}
	e.Close(discard())
	server.Stop()
	if err := <-served; !errors.Is(err, grpc.ErrServerStopped) {
		require.NoError(t, err)
	}
}

// What the operator does for a job when it exports traces, of minutes that a job takes.
func BenchmarkJob(b *testing.B) {
	to := otlp.Receive()
	b.Cleanup(to.Close)
	b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	e, err := Start(b.Context(), config.Traces{Endpoint: to.URL, Protocol: config.TracesHTTP}, discard())
	require.NoError(b, err)
	b.Cleanup(func() { e.Close(discard()) })
	said := story(planned(e, "j"))
	w := &Watcher{Exporter: e, Log: discard(), Now: time.Now}
	w.begin()
	for b.Loop() {
		w.added(b.Context(), said[0], false)
		for i := 1; i < len(said); i++ {
			w.changed(said[i-1], said[i])
		}
		drain(w)
	}
}

func TestBenchmarks(t *testing.T) { bench.Once(t) }
