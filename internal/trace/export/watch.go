package export

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	jobtrace "github.com/nodefirmware/node-firmware-operator/internal/trace"
)

// Watcher follows the jobs in the cache of the leader, and exports each span when it has ended. It decides nothing and writes nothing.
type Watcher struct {
	Exporter *Exporter
	// Cache holds the jobs and the devices. Direct reads from the API server itself: when a template was edited is trimmed from the cache.
	Cache  cache.Cache
	Direct client.Reader
	Log    *slog.Logger
	Now    func() time.Time

	// known has the traces of the jobs in the cache. It is written by the informer's handler and read by the worker of edits.
	mu    sync.Mutex
	known map[trace.TraceID]*origin
	// exported are the traces whose first spans were exported. Only the handler has it.
	exported map[trace.TraceID]struct{}
	// spans and edits are what waits to be exported: the spans of jobs, and the first two of a trace, for which the API server is asked.
	spans, edits *backlog
}

// origin is what the jobs of one trace say of it.
type origin struct {
	// jobs is how many of them there are, and first is when the earliest was queued.
	jobs  int
	first time.Time
}

const (
	// memory is how long after its end a job is exported again by a process that starts. The one before it may have been killed with spans that
	// it had not sent; those that it had sent arrive twice, with the same ids.
	memory = time.Hour
	// mostEdits bounds Watcher.exported. Beyond it they are forgotten, and exported again with their next job.
	mostEdits = 16384
	// mostSpans and mostReads bound the backlogs. A start puts one entry for each job of the last hour into the one, and one for each edit into
	// the other; pins are an edit for each node.
	mostSpans, mostReads = 32768, 16384
	// readTimeout bounds the look at a template. Nobody waits for it but the two spans of this edit and of those behind it.
	readTimeout = 10 * time.Second
)

// begin empties what the watcher remembers.
func (w *Watcher) begin() {
	w.known, w.exported = map[trace.TraceID]*origin{}, map[trace.TraceID]struct{}{}
	w.spans, w.edits = newBacklog("spans of jobs", mostSpans, w.Log), newBacklog("edits", mostReads, w.Log)
}

// Start implements manager.Runnable. It runs in the leader alone, until the context ends.
func (w *Watcher) Start(ctx context.Context) error {
	w.begin()
	// The handler looks devices up, and must not wait until there are any.
	if _, err := w.Cache.GetInformer(ctx, &v1alpha1.NodeDevice{}); err != nil {
		return fmt.Errorf("follow devices for traces: %w", err)
	}
	informer, err := w.Cache.GetInformer(ctx, &v1alpha1.FirmwareJob{})
	if err != nil {
		return fmt.Errorf("follow firmware jobs for traces: %w", err)
	}
	follows, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, isOld bool) {
			if j, ok := o.(*v1alpha1.FirmwareJob); ok {
				w.added(ctx, j, isOld)
			}
		},
		UpdateFunc: func(was, is any) {
			old, ok := was.(*v1alpha1.FirmwareJob)
			j, also := is.(*v1alpha1.FirmwareJob)
			if ok && also && old.ResourceVersion != j.ResourceVersion {
				w.changed(old, j)
			}
		},
		DeleteFunc: func(o any) {
			if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			if j, ok := o.(*v1alpha1.FirmwareJob); ok {
				w.deleted(j)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("follow firmware jobs for traces: %w", err)
	}
	// Which job of an edit was the first is known only when all were seen. Nobody waits for the workers, which a hung collector may hold up:
	// what is left when they end is exported by the next process.
	if toolscache.WaitForCacheSync(ctx.Done(), follows.HasSynced) {
		go w.spans.run(ctx)
		go w.edits.run(ctx)
	}
	<-ctx.Done()
	_ = informer.RemoveEventHandler(follows) // the informer ends as well
	return nil
}

// added exports what a job has done so far, and where it comes from.
func (w *Watcher) added(ctx context.Context, j *v1alpha1.FirmwareJob, isOld bool) {
	w.join(j)
	if end := endOf(j); isOld && !end.IsZero() && w.Now().Sub(end) > memory {
		return
	}
	at := w.Exporter.jobSpan(j)
	if !isOld {
		w.say("Job was queued", j, at)
	}
	w.exportEdits(ctx, j)
	w.spans.add(func() { w.export(spansOf(j, at, time.Time{})) }) // after a start they are many: only the job is kept until then
}

// changed exports what has ended since.
func (w *Watcher) changed(old, j *v1alpha1.FirmwareJob) {
	if !slices.Equal(tracesOf(old), tracesOf(j)) { // by a person
		w.leave(old)
		w.join(j)
	}
	at := w.Exporter.jobSpan(j)
	w.exportNew(spansOf(old, at, time.Time{}), spansOf(j, at, time.Time{}))
	if !old.Admitted() && j.Admitted() {
		w.say("Job was admitted", j, at)
	}
	if !old.Ended() && j.Ended() {
		result, reason := resultOf(j)
		w.say("Job ended", j, at, "result", result, "reason", reason)
	}
}

// deleted ends the trace of a job that was deleted before its end.
func (w *Watcher) deleted(j *v1alpha1.FirmwareJob) {
	w.leave(j)
	if j.Ended() {
		return
	}
	at, gone := w.Exporter.jobSpan(j), w.Now()
	if j.DeletionTimestamp != nil {
		gone = j.DeletionTimestamp.Time
	}
	w.exportNew(spansOf(j, at, time.Time{}), spansOf(j, at, gone))
	w.say("Job was withdrawn", j, at)
}

// exportNew exports the spans that were not among those before.
func (w *Watcher) exportNew(before, now []span) {
	had := map[trace.SpanID]bool{}
	for _, s := range before {
		had[s.at.SpanID()] = true
	}
	var fresh []span
	for _, s := range now {
		if !had[s.at.SpanID()] {
			fresh = append(fresh, s)
		}
	}
	if len(fresh) > 0 {
		w.spans.add(func() { w.export(fresh) })
	}
}

// export is called by the workers alone, because a full queue of the library holds it up.
func (w *Watcher) export(spans []span) {
	for _, s := range spans {
		w.Exporter.emit(s)
	}
}

// tracesOf are the traces that a job belongs to, each once.
func tracesOf(j *v1alpha1.FirmwareJob) (out []trace.TraceID) {
	for _, s := range append([]trace.SpanContext{jobtrace.Parent(j)}, jobtrace.Links(j)...) {
		if s.IsValid() {
			out = append(out, s.TraceID())
		}
	}
	return out
}

// join counts a job to its traces. They are forgotten with their last job, so that they are no more than the cache has.
func (w *Watcher) join(j *v1alpha1.FirmwareJob) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range tracesOf(j) {
		queued := j.CreationTimestamp.Time
		o := w.known[id]
		if o == nil {
			o = &origin{first: queued}
			w.known[id] = o
		}
		o.jobs++
		if queued.Before(o.first) {
			o.first = queued
		}
	}
}

// leave takes a job from its traces.
func (w *Watcher) leave(j *v1alpha1.FirmwareJob) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range tracesOf(j) {
		o := w.known[id]
		if o == nil {
			continue
		}
		if o.jobs--; o.jobs == 0 {
			delete(w.known, id)
		}
	}
}

// firstOf is when the first job of the trace was queued, of those that this process has seen; no later than the given time.
func (w *Watcher) firstOf(id trace.TraceID, queued time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.known[id]; o != nil && o.first.Before(queued) {
		return o.first
	}
	return queued
}

func (w *Watcher) say(what string, j *v1alpha1.FirmwareJob, at trace.SpanContext, more ...any) {
	w.Log.Info(what, append([]any{"job", j.Name, "node", j.Spec.NodeName, "traceID", at.TraceID().String()}, more...)...)
}

// exportEdits exports the first two spans of each trace that the job belongs to, unless this process did so already.
func (w *Watcher) exportEdits(ctx context.Context, j *v1alpha1.FirmwareJob) {
	for _, id := range tracesOf(j) {
		if _, done := w.exported[id]; done {
			continue
		}
		o := w.originOf(ctx, j, id)
		if o == nil {
			continue // a trace of whoever made the job, or the devices are to get something else by now
		}
		queued := j.CreationTimestamp.Time
		if !w.edits.add(func() { w.export(w.editSpans(ctx, *o, w.firstOf(id, queued))) }) {
			continue // with the next job of the edit
		}
		if len(w.exported) >= mostEdits {
			clear(w.exported)
		}
		w.exported[id] = struct{}{}
	}
}

// editSpans are the edit, which takes no time, and the match, which lasts until the first job is queued. The API server is asked for them.
func (w *Watcher) editSpans(ctx context.Context, o v1alpha1.Origin, queued time.Time) []span {
	edited := w.edited(ctx, o, queued)
	edit, match := w.Exporter.edit(o), w.Exporter.match(o)
	common := []attribute.KeyValue{
		attribute.String(attrKind, string(o.Kind)), attribute.String(attrName, o.Name), attribute.Int64(attrGeneration, o.Generation),
	}
	return []span{
		{name: "edit", at: edit, start: edited, end: edited, attributes: common},
		{name: "match", at: match, parent: edit, start: edited, end: queued, attributes: common},
	}
}

// originOf is the template or the pins whose edit has the trace; nil where no device of the job says so.
func (w *Watcher) originOf(ctx context.Context, j *v1alpha1.FirmwareJob, id trace.TraceID) *v1alpha1.Origin {
	var devices []v1alpha1.NodeDevice
	for _, u := range j.Spec.Task.Devices {
		var d v1alpha1.NodeDevice
		if err := w.Cache.Get(ctx, types.NamespacedName{Name: u.Name}, &d, client.UnsafeDisableDeepCopy); err == nil {
			devices = append(devices, d)
		}
	}
	for _, o := range originsOf(j, devices) {
		if jobtrace.OfEdit(o) == id {
			return &o
		}
	}
	return nil
}

// edited is when a person made the edit, at the latest when its first job was queued, which stands for it where the object is another one or
// says something else by now.
func (w *Watcher) edited(ctx context.Context, o v1alpha1.Origin, queued time.Time) time.Time {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	is := &metav1.PartialObjectMetadata{}
	is.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(string(o.Kind)))
	if err := w.Direct.Get(ctx, types.NamespacedName{Name: o.Name}, is); err != nil || string(is.UID) != o.UID || is.Generation != o.Generation {
		return queued
	}
	at := is.CreationTimestamp.Time
	for _, f := range is.ManagedFields {
		byPerson := f.Subresource == "" && f.Manager != v1alpha1.FieldOwnerOperator && f.Manager != v1alpha1.FieldOwnerDaemon
		if byPerson && f.Time != nil && f.Time.After(at) && o.Generation > 1 {
			at = f.Time.Time
		}
	}
	if at.After(queued) {
		return queued
	}
	return at
}
