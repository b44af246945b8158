package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	jobtrace "github.com/nodefirmware/node-firmware-operator/internal/trace"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Exporter sends spans to the collector that the environment names. Only the workers of the Watcher wait for that.
type Exporter struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// Start makes an exporter. The libraries of OpenTelemetry read the standard variables themselves, the endpoint and the sampler among them.
// It connects to nothing, and its one goroutine ends with Close.
func Start(ctx context.Context, t config.Traces, log *slog.Logger) (*Exporter, error) {
	// Both are global in the library. The texts of its settings may hold credentials, so that its log has the sentences alone.
	otel.SetLogger(logr.FromSlogHandler(wordless{log.Handler()}))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if errors.Is(err, resource.ErrPartialResource) {
			return // said below, without what it repeats
		}
		// The library makes the whole answer of the collector part of it, of up to 4 MiB.
		log.Warn("Traces were not exported; what was sent of jobs meanwhile is missing at the collector", "err", text.Clip(err.Error(), maxAnswer))
	}))
	client := otlptracehttp.NewClient()
	if t.Protocol == config.TracesGRPC {
		client = otlptracegrpc.NewClient()
	}
	sender, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("make exporter of traces: %w", err)
	}
	self, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "firmware-operator"), attribute.String("service.version", version.Current()),
	), resource.WithFromEnv())
	if errors.Is(err, resource.ErrPartialResource) { // the error repeats what is malformed, which may be a credential
		log.Warn("OTEL_RESOURCE_ATTRIBUTES is malformed, so that some of its attributes are missing from the traces; write name=value pairs with commas between")
	} else if err != nil {
		return nil, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	// A full queue of the library holds the watcher's workers up. It would drop silently instead, most of all when a start exports the last hour.
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(sender, sdktrace.WithBlocking()), sdktrace.WithIDGenerator(derived{}), sdktrace.WithResource(self))
	return &Exporter{provider: provider, tracer: provider.Tracer("github.com/nodefirmware/node-firmware-operator")}, nil
}

// maxAnswer bounds what the log has of an error, in bytes.
const maxAnswer = 1024

// patience is how long Close waits for a collector.
const patience = 2 * time.Second

// Close sends what waits, for which it takes two seconds at most.
func (e *Exporter) Close(log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := e.provider.Shutdown(ctx); err != nil {
		log.Warn("The last spans were not exported: the collector did not take them in time", "err", text.Clip(err.Error(), maxAnswer))
	}
}

// span is one that has ended.
type span struct {
	name string
	// at is the span itself, and parent the one that it is part of; that is not valid for the first one of a trace.
	at, parent trace.SpanContext
	start, end time.Time
	attributes []attribute.KeyValue
	links      []trace.SpanContext
	// failed says that it did not end well, and why: a reason of the API, which may be empty.
	failed bool
	reason string
}

// emit hands the span over. It blocks while the queue of the library is full.
func (e *Exporter) emit(s span) {
	_, out := e.tracer.Start(s.context(), s.name, trace.WithTimestamp(s.start), trace.WithAttributes(s.attributes...), trace.WithLinks(s.linked()...))
	if s.failed {
		out.SetStatus(codes.Error, s.reason)
	}
	out.End(trace.WithTimestamp(s.end))
}

// context gives the library the ids of the span, and which one it is part of.
func (s span) context() context.Context {
	ctx := context.WithValue(context.Background(), ids{}, s.at)
	if s.parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, s.parent)
	}
	return ctx
}

func (s span) linked() (out []trace.Link) {
	for _, to := range s.links {
		out = append(out, trace.Link{SpanContext: to})
	}
	return out
}

// first is the first span of a trace, with what the sampler says of that.
func (e *Exporter) first(id trace.TraceID, at trace.SpanID) trace.SpanContext {
	s := trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: at})
	_, probe := e.tracer.Start(span{at: s}.context(), "") // never ended, and so never exported
	return probe.SpanContext()
}

// within is another span of the trace.
func within(s trace.SpanContext, at trace.SpanID) trace.SpanContext {
	return s.WithSpanID(at).WithRemote(false)
}

// ids is the key of the span whose ids are to be given.
type ids struct{}

// derived gives each span the ids that it is to have.
type derived struct{}

// NewIDs implements the generator of the library.
func (derived) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	s, _ := ctx.Value(ids{}).(trace.SpanContext)
	return s.TraceID(), s.SpanID()
}

// NewSpanID implements the generator of the library.
func (derived) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	s, _ := ctx.Value(ids{}).(trace.SpanContext)
	return s.SpanID()
}

// wordless is a log of sentences alone.
type wordless struct{ slog.Handler }

// Handle leaves out everything but the sentence.
func (w wordless) Handle(ctx context.Context, r slog.Record) error {
	return w.Handler.Handle(ctx, slog.NewRecord(r.Time, r.Level, "OpenTelemetry: "+r.Message, r.PC))
}

// WithAttrs leaves them out.
func (w wordless) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup leaves it out.
func (w wordless) WithGroup(string) slog.Handler { return w }

// Mark writes into the annotations of a new job which matches its updates come from: of the templates that assign them, and of the pins. The
// devices are those of its node.
func (e *Exporter) Mark(j *v1alpha1.FirmwareJob, devices []v1alpha1.NodeDevice) {
	var matches []string
	known := map[trace.TraceID]bool{}
	for _, o := range originsOf(j, devices) {
		id := jobtrace.OfEdit(o)
		if known[id] || len(matches) > jobtrace.MaxLinks {
			continue
		}
		known[id] = true
		matches = append(matches, jobtrace.Header(e.match(o)))
	}
	if len(matches) == 0 {
		return
	}
	if j.Annotations == nil {
		j.Annotations = map[string]string{}
	}
	j.Annotations[v1alpha1.TraceParentAnnotation] = matches[0]
	if len(matches) > 1 {
		j.Annotations[v1alpha1.TraceLinksAnnotation] = strings.Join(matches[1:], ",")
	}
}

// edit and match are the first two spans of the trace of an edit.
func (e *Exporter) edit(o v1alpha1.Origin) trace.SpanContext {
	id := jobtrace.OfEdit(o)
	return e.first(id, jobtrace.SpanOf("edit", id.String()))
}

func (e *Exporter) match(o v1alpha1.Origin) trace.SpanContext {
	edit := e.edit(o)
	return within(edit, jobtrace.SpanOf("match", edit.TraceID().String()))
}

// originsOf are the templates and pins that the updates of a job come from, in the order of its devices.
func originsOf(j *v1alpha1.FirmwareJob, devices []v1alpha1.NodeDevice) (out []v1alpha1.Origin) {
	for _, u := range j.Spec.Task.Devices {
		for i := range devices {
			if devices[i].Name != u.Name {
				continue
			}
			from := devices[i].Spec.Origin
			if o := v1alpha1.AssignedBy(from); o != nil && u.Digest != "" {
				out = append(out, *o)
			}
			if o := v1alpha1.ConfiguredBy(from); o != nil && u.Configuration != "" {
				out = append(out, *o)
			}
		}
	}
	return out
}
