// Package otlp is a collector of OpenTelemetry for tests: it keeps the spans that it is sent.
package otlp

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Receiver takes spans over HTTP, in the form of protocol buffers.
type Receiver struct {
	*httptest.Server

	asked  atomic.Bool
	closed chan struct{}
	mu     sync.Mutex
	spans  []Span
}

// Span is one that was received.
type Span struct {
	// Trace, ID and Parent in hexadecimal digits; Parent is empty for the first one of a trace.
	Trace, ID, Parent, Name string
	Start, End              time.Time
	// Attributes are those of the span and of its resource; a list has commas between.
	Attributes map[string]string
	// Links are the ids of other spans, with their trace before a slash.
	Links []string
	// Failed says that its status is an error.
	Failed bool
}

// Receive starts a receiver, which must be closed. Its endpoint is URL.
func Receive() *Receiver {
	r := &Receiver{closed: make(chan struct{})}
	r.Server = httptest.NewServer(http.HandlerFunc(r.take))
	return r
}

// Hang starts a receiver that takes connections and never answers, until it is closed.
func Hang() *Receiver {
	r := &Receiver{closed: make(chan struct{})}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		r.asked.Store(true)
		_, _ = io.Copy(io.Discard, q.Body) // the end of the connection is seen only then
		select {
		case <-q.Context().Done():
		case <-r.closed: // a request that came again meanwhile
		}
	}))
	return r
}

// Asked reports whether somebody sent anything to a receiver that hangs.
func (r *Receiver) Asked() bool { return r.asked.Load() }

// Close ends the receiver, and its connections.
func (r *Receiver) Close() {
	close(r.closed)
	r.CloseClientConnections()
	r.Server.Close()
}

func (r *Receiver) take(w http.ResponseWriter, q *http.Request) {
	const most = 64 << 20
	body, err := io.ReadAll(io.LimitReader(q.Body, most))
	var sent collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &sent)
	}
	if err != nil || q.URL.Path != "/v1/traces" {
		http.Error(w, "want spans in protocol buffers at /v1/traces", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, from := range sent.ResourceSpans {
		for _, scope := range from.ScopeSpans {
			for _, s := range scope.Spans {
				r.spans = append(r.spans, read(s, from.GetResource().GetAttributes()))
			}
		}
	}
}

func read(s *tracev1.Span, of []*common.KeyValue) Span {
	out := Span{
		Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId), Name: s.Name,
		Start: time.Unix(0, int64(s.StartTimeUnixNano)), End: time.Unix(0, int64(s.EndTimeUnixNano)), //nolint:gosec // until the year 2262
		Attributes: map[string]string{}, Failed: s.GetStatus().GetCode() == tracev1.Status_STATUS_CODE_ERROR,
	}
	for _, a := range slices.Concat(of, s.Attributes) {
		out.Attributes[a.Key] = text(a.Value)
	}
	for _, l := range s.Links {
		out.Links = append(out.Links, hex.EncodeToString(l.TraceId)+"/"+hex.EncodeToString(l.SpanId))
	}
	return out
}

func text(v *common.AnyValue) string {
	if list := v.GetArrayValue(); list != nil {
		var out []string
		for _, one := range list.Values {
			out = append(out, text(one))
		}
		return strings.Join(out, ",")
	}
	if _, ok := v.Value.(*common.AnyValue_IntValue); ok {
		return strconv.FormatInt(v.GetIntValue(), 10)
	}
	return v.GetStringValue()
}

// Spans are all that were received so far, in that order.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// Named are the spans of that name.
func (r *Receiver) Named(name string) []Span {
	return slices.DeleteFunc(r.Spans(), func(s Span) bool { return s.Name != name })
}
