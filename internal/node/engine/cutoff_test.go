package engine_test

import (
	"fmt"
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

// killEach ends the process whenever it has looked for that long at the host with its new firmware.
func killEach(m *enginetest.Machine, life time.Duration) {
	var current *engine.Engine
	var began time.Time
	look := m.OnLook
	m.OnLook = func() {
		if look != nil {
			look()
		}
		if m.Engine != current {
			current, began = m.Engine, time.Now()
		}
		if time.Since(began) >= life && m.Sim.Firmware("nic0").Running == "2.0" {
			m.Stop()
		}
	}
}

// A daemon that dies again and again does not keep a node that is cut off from its old firmware, however short its lives are,
// and whether or not the link comes up at times (R002-9).
func TestNodeThatIsCutOffRollsBackHoweverOftenItsDaemonDies(t *testing.T) {
	for _, life := range []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 3 * time.Minute, 6*time.Minute + 30*time.Second} {
		for _, flaps := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, flaps: %t", life, flaps), func(t *testing.T) {
				inBubble(t, func(t *testing.T, m *enginetest.Machine) {
					j := cutOff(m, inventory.ActivateReboot)
					if flaps {
						m.OnBoot = func() {
							if m.APIAway = errAPIDown; m.Sim.Firmware("nic0").Running == "1.0" {
								m.APIAway = nil
							}
						}
						m.OnLook = func() {
							m.LinkDown = m.Sim.Firmware("nic0").Running == "2.0" && time.Now().Second()%30 < 20
						}
						j = m.Job("j", m.IDs...)
						j.Soak = time.Minute
					}
					var began time.Time
					m.OnSnapshot = func(s engine.Snapshot) {
						if g := stepOf(s.Job, plan.Health, false); began.IsZero() && g.State == step.Running {
							began = time.Now()
						}
					}
					killEach(m, life)
					gate := stepOf(requireRolledBack(t, m, m.Run(j), "j"), plan.Health, false)
					assert.InDelta(t, 7*time.Minute, gate.Finished.Sub(began), float64(time.Minute))
				})
			})
		}
	}
}

// journalled is the wait that the journal of a machine holds.
func journalled(t *testing.T, m *enginetest.Machine) *journal.CutOff {
	t.Helper()
	view, err := journal.Peek(m.Dir)
	require.NoError(t, err)
	require.NotNil(t, view.Job("uid-j"))
	return view.Job("uid-j").CutOff
}

// What a daemon wrote about its wait is only worth something while the wait goes on: in the same boot, not long ago, and with
// no answer since.
func TestWaitOfAnEarlierDaemonCountsOnlyWhileItGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		between func(m *enginetest.Machine)
		// waited is how long the gate then waits from the return of the daemon.
		waited time.Duration
	}{
		"a short pause counts":                {func(*enginetest.Machine) { <-time.After(2 * time.Minute) }, time.Minute},
		"a pause as long as the wait is none": {func(*enginetest.Machine) { <-time.After(10 * time.Minute) }, 7 * time.Minute},
		"another boot": {func(m *enginetest.Machine) {
			m.RebootWanted, m.OnBoot = true, func() { <-time.After(5 * time.Minute) } // the daemon is as late in this boot
		}, 7 * time.Minute},
		"an answer meanwhile": {func(m *enginetest.Machine) {
			m.Uplink, m.OnLook = "", func() { m.OnLook = func() { m.Stop() } }
			m.Live()
			m.Uplink, m.OnLook = "nic0", nil
		}, 7 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				j := cutOff(m, inventory.ActivateReboot)
				m.OnBoot = func() { m.OnBoot = nil; killEach(m, 4*time.Minute) }
				m.Live(j) // until its reboot
				m.Live()  // four minutes of the wait
				require.NotNil(t, journalled(t, m))
				m.OnLook = nil
				if c.between(m); m.RebootWanted {
					m.OnLook = func() { m.Stop() }
					m.Live()
					m.OnLook, m.OnBoot = nil, nil
				}
				back := time.Now()
				gate := stepOf(requireRolledBack(t, m, m.Run(), "j"), plan.Health, false)
				assert.InDelta(t, c.waited, gate.Finished.Sub(back), float64(10*time.Second))
				assert.Nil(t, journalled(t, m))
			})
		})
	}
}

// A journal is on flash: a wait is written when it begins and when it ends, and a few times between.
func TestWaitIsWrittenRarely(t *testing.T) {
	for name, c := range map[string]struct {
		answers func(since time.Duration) bool
		most    float64
	}{
		"no answer":           {func(time.Duration) bool { return false }, 6},
		"an answer each 20 s": {func(since time.Duration) bool { return since%(20*time.Second) < 4*time.Second }, 6 + 2*7},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				j := cutOff(m, inventory.ActivateDeviceReset)
				var began time.Time
				var written int
				var last *journal.CutOff
				m.OnLook = func() {
					if m.Sim.Firmware("nic0").Running != "2.0" {
						return
					}
					if began.IsZero() {
						began = time.Now()
					}
					if m.Uplink = "nic0"; c.answers(time.Since(began)) {
						m.Uplink = ""
					}
					if now := journalled(t, m); (now == nil) != (last == nil) || now != nil && *now != *last {
						written++
						last = now
					}
				}
				requireRolledBack(t, m, m.Run(j), "j")
				assert.Positive(t, written)
				minutes := time.Since(began).Minutes()
				assert.LessOrEqual(t, float64(written), max(c.most, 2*minutes+4))
			})
		})
	}
}
