package operator

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/otlp"
)

// exports reports whether a goroutine of this process exports spans.
func exports() bool {
	stacks := make([]byte, 8<<20)
	return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "go.opentelemetry.io/otel/sdk/trace.")
}

// Without an endpoint nothing of the library runs. With one whose collector never answers, jobs run and the operator stops all the same. R000-70
func TestOnlyAskedForTracesRun(t *testing.T) {
	for _, isOn := range []bool{false, true} { // what exports ends some time after the operator
		t.Run(fmt.Sprintf("on=%t", isOn), func(t *testing.T) {
			env := apitest.New(t)
			collector := otlp.Hang()
			t.Cleanup(collector.Close)
			conf := config.Operator{UpdateStrategies: []string{config.StrategyDaemon}, StoreDir: t.TempDir(), FileSourceDir: t.TempDir()}
			if isOn {
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
				t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "86400000")
				t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "86400000")
				t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
				conf.Traces = config.Traces{Endpoint: collector.URL, Protocol: config.TracesHTTP}
			}
			p := startWith(t, env, conf)
			d := p.daemons()
			p.policy("Active")
			p.images("1", "2")
			p.template("2")
			d.add("n1", "1")
			d.eventually("the job has ended", func() bool { return d.executed("n1") == 1 })
			var jobs v1alpha1.FirmwareJobList
			require.NoError(t, env.Client.List(t.Context(), &jobs))
			require.Len(t, jobs.Items, 1)
			parent := jobs.Items[0].Annotations[v1alpha1.TraceParentAnnotation]
			assert.Equal(t, isOn, exports())
			assert.Equal(t, isOn, strings.HasPrefix(parent, "00-"), parent)
			if isOn {
				p.eventually("the collector is told", collector.Asked)
			}
			p.stop()
			require.NoError(t, <-p.done)
			p.done <- nil
			assert.Equal(t, isOn, collector.Asked())
		})
	}
}
