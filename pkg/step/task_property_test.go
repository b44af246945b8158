package step_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// stage is a host whose process dies and which reboots by itself as the draw says, while a job of steps runs.
type stage struct {
	t           *rapid.T
	r           step.Record
	f           step.Facts
	boots       int
	rebooting   bool
	maintenance step.Maintenance
	// begun lists the steps in the order they began first, changed counts the calls of those that change something.
	begun   []string
	changed map[string]int
	// done is how far each step is by what it kept, as a counter.
	done map[string]byte
}

func (w *stage) chance(label string, oneIn int) bool {
	return rapid.IntRange(1, oneIn).Draw(w.t, label) == oneIn
}

// Whatever dies when: the steps run in the order they were asked for, what changes something runs in the maintenance and
// goes on from what it kept, as does all that cleans the node, and the job ends with the node in service or held for a reason (R003-1,
// R003-23, R003-25, R003-48, R003-49).
func TestEveryScheduleOfSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"verify-inventory", "verify-firmware", "scrub", "reset-bios-settings"}), 1, 4,
			func(s string) string { return s }).Draw(t, "steps")
		var requests []plan.Request
		for _, n := range names {
			requests = append(requests, plan.Request{Name: n})
		}
		job := taskJob
		if rapid.Bool().Draw(t, "cleans") {
			job = cleaningJob
		}
		w := &stage{t: t, r: job(t, requests...), f: ready, maintenance: step.MaintenanceNone, changed: map[string]int{}, done: map[string]byte{}}
		for round := 0; w.r.Outcome == ""; round++ {
			require.Less(t, round, 500, "the job does not end: %+v", w.r)
			w.round()
		}
		w.judge()
	})
}

func (w *stage) round() {
	if w.rebooting || w.chance("power fails", 30) {
		w.boots++
		w.rebooting, w.f.Interrupted = false, true
	}
	w.f.BootID, w.f.Maintenance = fmt.Sprint("boot-", w.boots), w.maintenance
	before := w.r.Current()
	a := step.Next(w.r, w.f, step.DefaultLimits())
	w.r = step.Apply(w.r, a, w.f.BootID, time.Unix(0, 0))
	if a.Verb != step.Begin && a.Verb != step.Poll {
		if before != w.r.Current() {
			w.f.Interrupted = false
		}
		return
	}
	if w.chance("process dies before the step", 20) {
		w.f.Interrupted = true
		return
	}
	w.f.Interrupted = false
	ret := w.act(w.r.Steps[a.Step])
	if ret == nil {
		return
	}
	if w.chance("process dies after the step", 20) {
		w.f.Interrupted = true
		return
	}
	w.r = step.Report(w.r, a.Step, *ret)
}

func (w *stage) act(s step.Step) *step.Returned {
	name := string(s.Kind) + " " + s.Device
	if len(w.begun) == 0 || w.begun[len(w.begun)-1] != name {
		w.begun = append(w.begun, name)
	}
	switch s.Kind {
	case plan.Maintenance:
		w.maintenance = step.MaintenanceReady
		return nil
	case plan.Release:
		w.maintenance = step.MaintenanceNone
		return nil
	case plan.Health:
		return nil
	case plan.Reboot:
		w.rebooting = true
		return &step.Returned{}
	case plan.Preflight:
		return &step.Returned{}
	}
	if s.Changes || w.r.Cleans() {
		require.Equal(w.t, step.MaintenanceReady, w.maintenance, "%s without maintenance", name)
	}
	if s.Changes {
		w.changed[name]++
	}
	if w.chance("step fails", 12) {
		return &step.Returned{Failure: &step.Failure{Reason: step.StepFailed, Message: "it failed"}}
	}
	var kept byte
	if len(s.Data) > 0 {
		kept = s.Data[0]
	}
	require.LessOrEqual(w.t, kept, w.done[name], "kept what was never returned")
	if kept < w.done[name] {
		require.Equal(w.t, kept+1, w.done[name], "more than the last call was forgotten")
	}
	w.done[name] = kept + 1
	return &step.Returned{Data: []byte{kept + 1}, Again: w.chance("once more", 3), Reboot: s.Kind == plan.ResetBIOSSettings}
}

func (w *stage) judge() {
	at := map[string]int{}
	for i, s := range w.r.Steps {
		at[string(s.Kind)+" "+s.Device] = i
		if s.Changes {
			assert.LessOrEqual(w.t, s.Attempt, int32(step.MaxTaskAttempts))
			assert.LessOrEqual(w.t, s.Interruptions, int32(step.MaxInterruptions))
			assert.LessOrEqual(w.t, w.changed[string(s.Kind)+" "+s.Device], 100)
		}
		if s.Kind == plan.Reboot {
			assert.LessOrEqual(w.t, s.Attempt, int32(step.MaxAttempts))
		}
	}
	for i := range w.begun {
		if i > 0 {
			assert.Less(w.t, at[w.begun[i-1]], at[w.begun[i]], "ran out of order: %v", w.begun)
		}
	}
	if w.r.Outcome == step.Complete {
		assert.Equal(w.t, step.MaintenanceNone, w.maintenance, "left out of service")
		return
	}
	require.NotNil(w.t, w.r.Failure)
	assert.Nil(w.t, w.r.Rollback, "no firmware is at fault")
	if w.r.Failure.Reason != step.Cancelled {
		assert.Equal(w.t, w.r.InMaintenance(), w.r.Failure.Held, "a step that failed out of service holds the node, and no other")
	}
	if w.r.Failure.Held {
		assert.Equal(w.t, step.MaintenanceReady, w.maintenance)
	} else {
		assert.Equal(w.t, step.MaintenanceNone, w.maintenance, "left out of service without being held: %+v", w.r.Failure)
	}
}
