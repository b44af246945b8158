package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// counted is a machine whose job has a soak of a minute, and counts the questions to the API server and the looks at the host in
// each of its health gates.
type counted struct {
	*enginetest.Machine
	job           journal.Job
	asked, looked []int
}

func count(m *enginetest.Machine, spoil func(since time.Duration)) *counted {
	c := &counted{Machine: m, job: m.Job("j", m.ReadBackNIC(inventory.ActivateReboot))}
	c.job.Soak = time.Minute
	var began time.Time
	in := false
	m.OnSnapshot = func(s engine.Snapshot) {
		cur := s.Job.CurrentStep()
		now := cur != nil && cur.Kind == plan.Health && cur.State == step.Running
		switch {
		case now && !in:
			c.asked, c.looked, began = append(c.asked, -m.Asked), append(c.looked, -m.Looked), time.Now()
		case in && !now:
			c.asked[len(c.asked)-1] += m.Asked
			c.looked[len(c.looked)-1] += m.Looked
		}
		in = now
	}
	m.OnLook = func() {
		m.APIAway, m.Refused, m.LinkDown, m.NodeReady = nil, nil, false, true
		if m.Boot == 2 && in {
			spoil(time.Since(began))
		}
	}
	return c
}

// The gate does not poll the API server while it waits, whatever it waits for: through the whole patience, and through a soak, it
// asks a few times, and looks at the host meanwhile.
func TestPatienceDoesNotPollServer(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(m *enginetest.Machine, since time.Duration)
		// most bounds the questions in the gate after the update.
		most int
	}{
		"a link is down":                 {func(m *enginetest.Machine, _ time.Duration) { m.LinkDown = true }, 20},
		"the node is not Ready":          {func(m *enginetest.Machine, _ time.Duration) { m.NodeReady = false }, 20},
		"the API server does not answer": {func(m *enginetest.Machine, _ time.Duration) { m.APIAway, m.LinkDown = errAPIDown, true }, 20},
		"a link that comes and goes at once": {func(m *enginetest.Machine, since time.Duration) {
			m.LinkDown = since/(4*time.Second)%2 == 0
		}, 11*6 + 3},
		"an API server that comes and goes": {func(m *enginetest.Machine, since time.Duration) {
			if m.LinkDown = true; since/(4*time.Second)%2 == 0 {
				m.Refused = errRefused
			}
		}, 21*6 + 3},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				w := count(m, func(since time.Duration) { c.spoil(m, since) })
				done := requireRolledBack(t, m, m.Run(w.job), "j")
				gate := stepOf(done, plan.Health, false)
				assert.GreaterOrEqual(t, gate.Finished.Sub(*gate.Started), 10*time.Minute-5*time.Second)
				require.Len(t, w.asked, 2)
				assert.LessOrEqual(t, w.asked[0], c.most, "in the patience")
				assert.Greater(t, w.looked[0], 250)
				assert.LessOrEqual(t, w.asked[1], 3, "in the soak after the rollback")
				assert.Greater(t, w.looked[1], 25)
			})
		})
	}
}

// An API server that is away for days is asked once a minute by each node that waits for it.
func TestAsksAbsentServerEachMinute(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		w := count(m, func(since time.Duration) {
			if since < 24*time.Hour {
				m.APIAway = errAPIDown
			}
		})
		done := requireComplete(t, m, m.Run(w.job), "j")
		require.Len(t, w.asked, 1)
		assert.LessOrEqual(t, w.asked[0], 24*60+15)
		gate := stepOf(done, plan.Health, false)
		assert.LessOrEqual(t, gate.Finished.Sub(*gate.Started), 24*time.Hour+3*time.Minute)
	})
}

// What the host sees itself does not wait for the next question: when its complaint ends the soak begins, and when one begins in
// the soak the patience does.
func TestChangeThatTheHostSeesIsAskedAboutAtOnce(t *testing.T) {
	t.Run("a link comes up", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			w := count(m, func(since time.Duration) { m.LinkDown = since < 5*time.Minute })
			gate := stepOf(requireComplete(t, m, m.Run(w.job), "j"), plan.Health, false)
			assert.InDelta(t, 6*time.Minute, gate.Finished.Sub(*gate.Started), float64(10*time.Second))
		})
	})
	t.Run("a link goes down in the soak", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			w := count(m, func(since time.Duration) { m.LinkDown = since > 40*time.Second })
			gate := stepOf(requireRolledBack(t, m, m.Run(w.job), "j"), plan.Health, false)
			assert.InDelta(t, 10*time.Minute+40*time.Second, gate.Finished.Sub(*gate.Started), float64(10*time.Second))
		})
	})
	t.Run("a node is cut off in the soak", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			w := count(m, func(since time.Duration) {
				if since > 40*time.Second {
					m.APIAway, m.LinkDown = errAPIDown, true
				}
			})
			isolateFor(m, 7*time.Minute)
			gate := stepOf(requireRolledBack(t, m, m.Run(w.job), "j"), plan.Health, false)
			assert.InDelta(t, 7*time.Minute+40*time.Second, gate.Finished.Sub(*gate.Started), float64(10*time.Second))
		})
	})
}
