package engine

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

func TestLogNamesTheTrace(t *testing.T) { // R000-70
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	said := func(parent string) string {
		var out bytes.Buffer
		x := &execution{Engine: New(Config{Log: slog.New(slog.NewTextHandler(&out, nil))})}
		x.job = journal.Job{Name: "j", TraceParent: parent, Record: step.New([]plan.Step{{Kind: plan.Flash}})}
		x.log(step.Action{Verb: step.Begin})
		return out.String()
	}
	assert.Contains(t, said("00-"+id+"-00f067aa0ba902b7-01"), "traceID="+id)
	assert.NotContains(t, said(""), "traceID")
}
