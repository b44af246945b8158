package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// recorded makes the machine keep a record of each write to a device, as the runner of the tools does.
func recorded(m *enginetest.Machine, w command.Writing) {
	m.Recorded = func(lock string) *command.Writing {
		n := len(m.Written[lock])
		if n == 0 {
			return nil
		}
		of := w
		of.Lock, of.Started, of.Tool = lock, time.Unix(int64(n), 0), command.Process{PID: 7}
		return &of
	}
}

func TestReportsExposedWrite(t *testing.T) {
	for name, c := range map[string]struct {
		recorded command.Writing
		want     *journal.Exposed
	}{
		"protected":    {command.Writing{Protected: true, Inhibited: true}, nil},
		"no scope":     {command.Writing{Unprotected: "no systemd here", Inhibited: true}, &journal.Exposed{Unprotected: "no systemd here"}},
		"no inhibitor": {command.Writing{Protected: true, Uninhibited: "i/o timeout"}, &journal.Exposed{Uninhibited: "i/o timeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				recorded(m, c.recorded)
				view := m.Run(m.Job("j", m.ReadBackNIC(inventory.ActivateReboot)))
				require.Equal(t, step.Complete, view.Job("uid-j").Record.Outcome, "the write went on")
				assert.Equal(t, c.want, view.Job("uid-j").Exposed)
				before := slices.ContainsFunc(m.Snapshots, func(s engine.Snapshot) bool {
					return s.Job.Exposed != nil && s.Job.Record.Outcome == ""
				})
				assert.Equal(t, c.want != nil, before, "it is reported while the job runs")
			})
		})
	}
}

// A record of an earlier job says nothing about this one.
func TestAnEarlierWriteIsNotTakenForTheJobsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.Recorded = func(lock string) *command.Writing {
			return &command.Writing{Lock: lock, Started: time.Unix(1, 0), Tool: command.Process{PID: 7}, Unprotected: "last year's daemon"}
		}
		view := m.Run(m.Job("j", m.ReadBackNIC(inventory.ActivateReboot)))
		require.Equal(t, step.Complete, view.Job("uid-j").Record.Outcome)
		assert.Nil(t, view.Job("uid-j").Exposed)
	})
}
