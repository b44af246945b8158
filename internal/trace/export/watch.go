package export

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
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

	// edits are the traces whose first spans were exported.
	edits map[trace.TraceID]struct{}
}

const (
	// memory is how long after its end a job is told again by a process that starts. The one before it may have been killed with spans that it
	// had not sent; those that it had sent are told twice, with the same ids.
	memory = time.Hour
	// mostEdits bounds Watcher.edits. Beyond it they are forgotten, and told again.
	mostEdits = 4096
	// readTimeout bounds the look at a template. Nobody waits for it but the spans.
	readTimeout = 10 * time.Second
)

// Start implements manager.Runnable. It runs in the leader alone, until the context ends.
func (w *Watcher) Start(ctx context.Context) error {
	w.edits = map[trace.TraceID]struct{}{}
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
	<-ctx.Done()
	_ = informer.RemoveEventHandler(follows) // the informer ends as well
	return nil
}

// added tells what a job has done so far, and where it comes from.
func (w *Watcher) added(ctx context.Context, j *v1alpha1.FirmwareJob, isOld bool) {
	if end := endOf(j); isOld && !end.IsZero() && w.Now().Sub(end) > memory {
		return
	}
	at := w.Exporter.jobSpan(j)
	if !isOld {
		w.say("Job was queued", j, at)
	}
	w.tellEdits(ctx, j)
	for _, s := range spansOf(j, at, time.Time{}) {
		w.Exporter.emit(s)
	}
}

// changed tells what has ended since.
func (w *Watcher) changed(old, j *v1alpha1.FirmwareJob) {
	at := w.Exporter.jobSpan(j)
	w.tellNew(spansOf(old, at, time.Time{}), spansOf(j, at, time.Time{}))
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
	if j.Ended() {
		return
	}
	at, gone := w.Exporter.jobSpan(j), w.Now()
	if j.DeletionTimestamp != nil {
		gone = j.DeletionTimestamp.Time
	}
	w.tellNew(spansOf(j, at, time.Time{}), spansOf(j, at, gone))
	w.say("Job was withdrawn", j, at)
}

// tellNew tells the spans that were not among those before.
func (w *Watcher) tellNew(before, now []span) {
	told := map[trace.SpanID]bool{}
	for _, s := range before {
		told[s.at.SpanID()] = true
	}
	for _, s := range now {
		if !told[s.at.SpanID()] {
			w.Exporter.emit(s)
		}
	}
}

func (w *Watcher) say(what string, j *v1alpha1.FirmwareJob, at trace.SpanContext, more ...any) {
	w.Log.Info(what, append([]any{"job", j.Name, "node", j.Spec.NodeName, "traceID", at.TraceID().String()}, more...)...)
}

// tellEdits tells the first two spans of each trace that the job belongs to, unless this process told them already.
func (w *Watcher) tellEdits(ctx context.Context, j *v1alpha1.FirmwareJob) {
	for _, span := range append([]trace.SpanContext{jobtrace.Parent(j)}, jobtrace.Links(j)...) {
		id := span.TraceID()
		if _, told := w.edits[id]; told || !span.IsValid() {
			continue
		}
		o := w.originOf(ctx, j, id)
		if o == nil {
			continue // a trace of whoever made the job, or the devices are to get something else by now
		}
		if len(w.edits) >= mostEdits {
			clear(w.edits)
		}
		w.edits[id] = struct{}{}
		queued := w.firstOf(ctx, j, id)
		edited := w.edited(ctx, *o, queued)
		edit, match := w.Exporter.edit(*o), w.Exporter.match(*o)
		common := []attribute.KeyValue{
			attribute.String(attrKind, string(o.Kind)), attribute.String(attrName, o.Name), attribute.Int64(attrGeneration, o.Generation),
		}
		for _, s := range editSpans(edit, match, edited, queued, common) {
			w.Exporter.emit(s)
		}
	}
}

// editSpans are the edit, which takes no time, and the match, which lasts until the first job is queued.
func editSpans(edit, match trace.SpanContext, edited, queued time.Time, common []attribute.KeyValue) []span {
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

// firstOf is when the first job of the trace was queued, of those that are still there.
func (w *Watcher) firstOf(ctx context.Context, j *v1alpha1.FirmwareJob, id trace.TraceID) time.Time {
	first := j.CreationTimestamp.Time
	var jobs v1alpha1.FirmwareJobList
	if err := w.Cache.List(ctx, &jobs, client.UnsafeDisableDeepCopy); err != nil {
		return first
	}
	for i := range jobs.Items {
		o := &jobs.Items[i]
		said := o.Annotations[v1alpha1.TraceParentAnnotation] + "," + o.Annotations[v1alpha1.TraceLinksAnnotation]
		if o.CreationTimestamp.Time.Before(first) && strings.Contains(said, id.String()) {
			first = o.CreationTimestamp.Time
		}
	}
	return first
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
