package lab

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/otlp"
)

// The trace of an edit is whole although the daemon and the operator are killed during the write, and the node reboots. R000-70
func TestOneTraceToTheVerdict(t *testing.T) {
	t.Parallel()
	collector := otlp.Receive()
	t.Cleanup(collector.Close)
	l := startLabWith(t, Options{Nodes: 1, OperatorEnv: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL}})
	s := l.scene(t, 0)
	release := s.hold("write", 0)
	list := s.want("cx7")
	eventually(t, "the write begins", func() bool { return s.running("flash") && s.writes() > 0 })
	s.node.KillDaemon()
	l.KillOperator()
	require.NoError(t, l.StartOperator())
	require.NoError(t, s.node.StartDaemon())
	release()
	s.requireDone(list, 1)
	eventually(t, "the verdict arrives", func() bool { return len(collector.Named("verdict")) > 0 && len(collector.Named("job")) > 0 })

	job := s.job()
	parent := strings.Split(job.Annotations[v1alpha1.TraceParentAnnotation], "-")
	require.Len(t, parent, 4)
	spans := map[string]otlp.Span{} // what is told twice has one id
	for _, span := range collector.Spans() {
		assert.Equal(t, parent[1], span.Trace, span.Name)
		assert.False(t, span.Failed, span.Name)
		assert.False(t, span.End.Before(span.Start), span.Name)
		spans[span.ID] = span
	}
	names := map[string][]otlp.Span{}
	for _, span := range spans {
		names[span.Name] = append(names[span.Name], span)
	}
	one := func(name string) otlp.Span {
		require.Len(t, names[name], 1, name)
		return names[name][0]
	}
	edit, match, whole := one("edit"), one("match"), one("job")
	assert.Empty(t, edit.Parent)
	assert.Equal(t, edit.ID, match.Parent)
	assert.Equal(t, match.ID, whole.Parent)
	assert.Equal(t, parent[2], match.ID)
	assert.True(t, match.Start.Before(match.End), "the quiet period is between the edit and the job")
	assert.Equal(t, "only-"+s.node.Name, edit.Attributes["nodefirmware.origin.name"])
	assert.Equal(t, v1alpha1.ConditionComplete, whole.Attributes["nodefirmware.result"])
	assert.Equal(t, s.node.Name, whole.Attributes["k8s.node.name"])
	for _, part := range []string{"admission", "verdict"} {
		assert.Equal(t, whole.ID, one(part).Parent, part)
	}
	ran := 0
	for _, step := range job.Status.Steps {
		if step.State == v1alpha1.StepSkipped && step.StartTime == nil {
			continue
		}
		ran++
		found := slices.ContainsFunc(names[step.Name], func(span otlp.Span) bool {
			return span.Parent == whole.ID && span.Attributes["nodefirmware.device"] == step.Device &&
				span.Start.Equal(step.StartTime.Time) && span.End.Equal(step.CompletionTime.Time)
		})
		assert.True(t, found, "%s %s", step.Name, step.Device)
	}
	assert.Len(t, spans, ran+len([]string{"edit", "match", "job", "admission", "verdict"}))
	reboot := one("reboot")
	assert.False(t, reboot.Start.Before(one("flash").Start.Add(-time.Second)))

	for name, path := range map[string]string{"operator": l.operatorLog(), "daemon": s.node.logPath} {
		written, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Contains(t, string(written), `"traceID":"`+parent[1]+`"`, name)
	}
	eventually(t, "an event has the trace", func() bool {
		var events eventsv1.EventList
		return l.admin.List(t.Context(), &events) == nil && slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == job.Name && strings.Contains(e.Note, parent[1])
		})
	})
}
