package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Traces is what the standard variables of OpenTelemetry say that this program has to know; the library reads the rest itself. The zero
// value exports nothing.
type Traces struct {
	// Endpoint is the URL of the collector; empty exports nothing. It may hold credentials, and is never shown.
	Endpoint string
	// Protocol is TracesHTTP or TracesGRPC; empty for TracesHTTP.
	Protocol string
	// Exporter is otlp, none, or empty for otlp.
	Exporter string
	// Disabled says that OTEL_SDK_DISABLED is true.
	Disabled bool
}

// The protocols of OTLP that traces are exported by.
const (
	TracesHTTP = "http/protobuf"
	TracesGRPC = "grpc"
)

// ReadTraces reads the variables. A variable for traces alone comes before the one for everything.
func ReadTraces(getenv func(string) string) Traces {
	return Traces{
		Endpoint: cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), getenv("OTEL_EXPORTER_OTLP_ENDPOINT")),
		Protocol: cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), getenv("OTEL_EXPORTER_OTLP_PROTOCOL")),
		Exporter: getenv("OTEL_TRACES_EXPORTER"), Disabled: strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true"),
	}
}

// On reports whether traces are exported.
func (t Traces) On() bool { return t.Endpoint != "" && t.Exporter != "none" && !t.Disabled }

func (t Traces) validate() error {
	if !t.On() {
		return nil
	}
	var errs problems
	u, err := url.Parse(t.Endpoint)
	errs.when(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https",
		"OTEL_EXPORTER_OTLP_ENDPOINT: want the URL of a collector with http or https, such as http://collector.monitoring:4318; unset it to export no traces")
	errs.when(t.Protocol != "" && t.Protocol != TracesHTTP && t.Protocol != TracesGRPC, "OTEL_EXPORTER_OTLP_PROTOCOL %q: want %s or %s", t.Protocol, TracesHTTP, TracesGRPC)
	errs.when(t.Exporter != "" && t.Exporter != "otlp", "OTEL_TRACES_EXPORTER %q: want otlp or none", t.Exporter)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("export of traces: %w", err)
	}
	return nil
}
