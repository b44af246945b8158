package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTracesOfTheEnvironment(t *testing.T) {
	const url = "http://collector:4318"
	for name, c := range map[string]struct {
		env  map[string]string
		on   bool
		said string
	}{
		"nothing":             {map[string]string{"OTEL_SERVICE_NAME": "x"}, false, ""},
		"endpoint":            {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url}, true, ""},
		"endpoint of traces":  {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": url + "/v1/traces"}, true, ""},
		"grpc":                {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, true, ""},
		"switched off":        {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_SDK_DISABLED": "TRUE"}, false, ""},
		"no exporter":         {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_TRACES_EXPORTER": "none"}, false, ""},
		"off and wrong":       {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_SDK_DISABLED": "true"}, false, ""},
		"no URL":              {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "me:hunter2@collector:4318"}, true, "want the URL of a collector"},
		"a URL of a file":     {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "file:///tmp/hunter2"}, true, "want the URL of a collector"},
		"JSON":                {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, true, `"http/json": want http/protobuf or grpc`},
		"an unknown exporter": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_TRACES_EXPORTER": "zipkin"}, true, `"zipkin": want otlp or none`},
	} {
		t.Run(name, func(t *testing.T) {
			traces := ReadTraces(func(key string) string { return c.env[key] })
			assert.Equal(t, c.on, traces.On())
			if err := traces.validate(); c.said == "" {
				assert.NoError(t, err)
			} else if assert.ErrorContains(t, err, c.said) {
				assert.NotContains(t, err.Error(), "hunter2")
			}
		})
	}
}
