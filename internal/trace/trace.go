package trace

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// OfEdit is the id of the trace of an edit: of a template or of a node's pins, in the generation that is named.
func OfEdit(o v1alpha1.Origin) trace.TraceID {
	return trace.TraceID(digest("edit", string(o.Kind), o.UID, strconv.FormatInt(o.Generation, 10))[:16])
}

// OfJob is the id of the trace of a job that belongs to no other one. It is not the uid itself: samplers want evenly distributed bits.
func OfJob(uid types.UID) trace.TraceID { return trace.TraceID(digest("job", string(uid))[:16]) }

// SpanOf is the id of the span that the parts name. Different lists of parts have different ids.
func SpanOf(parts ...string) trace.SpanID { return trace.SpanID(digest(parts...)[:8]) }

func digest(parts ...string) []byte {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return sum[:]
}

// key is the key of W3C Trace Context for the only field that is used of it.
const key = "traceparent"

// Parent is the span that a job belongs to, from its annotation; invalid where it has none, or one that is no traceparent.
func Parent(o metav1.Object) trace.SpanContext {
	return parse(o.GetAnnotations()[v1alpha1.TraceParentAnnotation])
}

// Links are the further spans that a job belongs to, one of each trace besides that of the Parent: in each, the job has one span.
func Links(o metav1.Object) (out []trace.SpanContext) {
	had := map[trace.TraceID]bool{Parent(o).TraceID(): true}
	list := o.GetAnnotations()[v1alpha1.TraceLinksAnnotation]
	for one := range strings.SplitSeq(list[:min(len(list), MaxLinks*maxHeader)], ",") {
		if s := parse(one); s.IsValid() && !had[s.TraceID()] && len(out) < MaxLinks {
			had[s.TraceID()] = true
			out = append(out, s)
		}
	}
	return out
}

// MaxLinks bounds how many further spans a job belongs to.
const MaxLinks = 8

// maxHeader is more than a traceparent has characters, which are 55.
const maxHeader = 64

func parse(header string) trace.SpanContext {
	if len(header) > maxHeader {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{key: header})
	return trace.SpanContextFromContext(ctx)
}

// Header is the traceparent of a span; empty for one that is not valid.
func Header(s trace.SpanContext) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), s), carrier)
	return carrier[key]
}

// Events adds the trace of a job to the events about it. They have no field for it that a recorder writes, so it is the end of the note.
type Events struct{ events.EventRecorder }

// Eventf implements events.EventRecorder.
func (e Events) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	if job, ok := regarding.(*v1alpha1.FirmwareJob); ok {
		if parent := Parent(job); parent.IsValid() {
			end := " [trace " + parent.TraceID().String() + "]"
			note, args = "%s%s", []any{text.Clip(fmt.Sprintf(note, args...), maxNote-len(end)), end}
		}
	}
	e.EventRecorder.Eventf(regarding, related, kind, reason, action, note, args...)
}

// maxNote bounds the note of an event in bytes, as the API server does; it refuses a longer one.
const maxNote = 1024
