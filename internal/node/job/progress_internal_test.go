package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Progress is written every two seconds at most, and that of drives that erase themselves for hours every 30, however many there are. What begins
// and ends is written at once.
func TestProgressIsReportedRarely(t *testing.T) {
	for kind, want := range map[plan.Kind]int{plan.Flash: 31, plan.Erase: 3} {
		at := time.Unix(0, 0)
		r := &Reconciler{Now: func() time.Time { return at }}
		j := journal.Job{Name: "j", Record: step.Record{Steps: []step.Step{{Step: plan.Step{Kind: kind, Device: "disk0"}, State: step.Running}}}}
		for range 61 {
			r.Notify(engine.Snapshot{Job: j})
			at = at.Add(time.Second)
		}
		assert.Len(t, r.events, want, "%s: in a minute", kind)
		r.Notify(engine.Snapshot{Job: j, Transition: true})
		assert.Len(t, r.events, want+1, "%s", kind)
	}
}
