package engine_test

import (
	"errors"
	"strings"
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

var errAPIDown = errors.New("dial tcp 10.0.0.1:6443: connection refused")

// cutOff is a machine whose only way to the API server is the adapter nic0, and a job with an image that takes its link down.
func cutOff(m *enginetest.Machine, activation inventory.Activation) journal.Job {
	m.Uplink = "nic0"
	j := m.Bad(m.Job("j", m.ReadBackNIC(activation)), "nic0")
	isolateFor(m, 7*time.Minute)
	j.Soak = time.Minute
	return j
}

// isolateFor bounds the wait for the API server by another time than any other wait.
func isolateFor(m *enginetest.Machine, most time.Duration) {
	m.Limits = step.DefaultLimits()
	m.Limits.Isolation = most
}

// stepOf is the first step of a kind.
func stepOf(j journal.Job, k plan.Kind, rollback bool) step.Step {
	for _, s := range j.Record.Steps {
		if s.Kind == k && s.Rollback == rollback {
			return s
		}
	}
	return step.Step{}
}

// A node that its new firmware cuts off from everything restores the previous firmware without asking anybody
// (R002-9).
func TestNodeThatItsNewFirmwareCutsOffRollsBackByItself(t *testing.T) {
	for _, activation := range []inventory.Activation{inventory.ActivateNone, inventory.ActivateDeviceReset, inventory.ActivateReboot} {
		t.Run(activation.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				var waits []string
				m.OnSnapshot = func(s engine.Snapshot) { waits = append(waits, s.Waiting) }
				view := m.Run(cutOff(m, activation))
				j := requireRolledBack(t, m, view, "j")
				assert.Equal(t, step.Network, j.Record.Failure.Evidence)
				assert.Equal(t, []string{"node-nic0"}, j.Record.Failure.Blames)
				assert.Equal(t, 1, m.Window.Scheduled, "in the same maintenance")
				gate := stepOf(j, plan.Health, false)
				assert.InDelta(t, 7*time.Minute, gate.Finished.Sub(*gate.Started), float64(10*time.Second))
				text := strings.Join(waits, "\n")
				assert.Contains(t, text, "link b8:ce:f6:00:00:nic0 of NIC model nic0 is no longer up")
				assert.Contains(t, text, "gateway 10.0.0.254 no longer answers through NIC nic0")
				assert.Contains(t, text, "the previous firmware is restored at "+gate.Started.Add(7*time.Minute).UTC().Format(time.RFC3339))
			})
		})
	}
}

// Killed between any two steps, a node that is cut off comes to the same end.
func TestKilledAnywhereWhileCutOffComesToTheSameEnd(t *testing.T) {
	last := 1
	for at := 1; at <= last; at++ {
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			j := cutOff(m, inventory.ActivateReboot)
			m.CrashAt = at
			view := m.Run(j)
			if view.Job(j.UID) == nil { // killed before the job was accepted
				view = m.Run(j)
			}
			requireRolledBack(t, m, view, "j")
			last = max(last, m.Points)
		})
	}
	assert.Greater(t, last, 20)
}

// A link that comes and goes does not bring the API server back, and does not extend the wait.
func TestLinkThatFlapsWhileCutOffDoesNotExtendTheWait(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		j := m.Job("j", m.ReadBackNIC(inventory.ActivateReboot))
		isolateFor(m, 7*time.Minute)
		j.Soak = time.Minute
		m.OnBoot = func() {
			if m.APIAway = errAPIDown; m.Sim.Firmware("nic0").Running == "1.0" {
				m.APIAway = nil
			}
		}
		m.OnLook = func() {
			m.LinkDown = m.Sim.Firmware("nic0").Running == "2.0" && time.Now().Second() < 20
		}
		gate := stepOf(requireRolledBack(t, m, m.Run(j), "j"), plan.Health, false)
		assert.InDelta(t, 7*time.Minute, gate.Finished.Sub(*gate.Started), float64(2*time.Minute))
	})
}

// Links that are up and a gateway that no longer answers cut a node off as well.
func TestGatewayThatNoLongerAnswersThroughTheNewFirmwareIsAComplaint(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.Uplink = "nic0"
		j := m.Job("j", m.ReadBackNIC(inventory.ActivateReboot))
		m.OnBoot = func() { m.Mute = m.Sim.Firmware("nic0").Running == "2.0" }
		done := requireRolledBack(t, m, m.Run(j), "j")
		assert.Equal(t, step.Network, done.Record.Failure.Evidence)
	})
}

// While nothing that the job changed explains it, the API server may be what is down: the node waits for it, however long.
func TestNodeWithoutAComplaintWaitsForTheAPIServer(t *testing.T) {
	for name, spoil := range map[string]func(m *enginetest.Machine){
		"nothing else is wrong":      func(*enginetest.Machine) {},
		"another device is unwell":   func(m *enginetest.Machine) { m.IDs = m.IDs[:1] },
		"the gateway is still there": func(m *enginetest.Machine) { m.Uplink = "nic0" },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				id := m.ReadBackNIC(inventory.ActivateReboot)
				m.Add(inventory.Disk, "disk0", inventory.ActivateNone)
				all := m.IDs
				began := time.Now()
				m.OnBoot = func() { m.APIAway = errAPIDown; spoil(m) }
				m.OnLook = func() {
					if m.Boot > 1 && time.Since(began) > 72*time.Hour {
						m.APIAway, m.IDs = nil, all
					}
				}
				j := m.Job("j", id)
				j.Soak = time.Minute
				requireComplete(t, m, m.Run(j), "j")
				assert.Greater(t, time.Since(began), 72*time.Hour)
				assert.Equal(t, 2, m.Boot)
			})
		})
	}
}

// An API server that was away for longer than the host may take to become healthy does not shorten the time that the node
// has from its return.
func TestPatienceBeginsWhenTheAPIServerAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		began := time.Now()
		m.OnBoot = func() { m.APIAway, m.NodeReady = errAPIDown, false }
		m.OnLook = func() {
			if m.Boot > 1 && time.Since(began) > 2*time.Hour {
				m.APIAway = nil
			}
			m.NodeReady = m.NodeReady || time.Since(began) > 2*time.Hour+5*time.Minute
		}
		requireComplete(t, m, m.Run(m.Job("j", id)), "j")
	})
}

// What was restored is judged in the same way. Where the network stays away the firmware was not the cause, and nothing more
// is written.
func TestNodeThatStaysCutOffWithItsOldFirmwareIsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		j := cutOff(m, inventory.ActivateReboot)
		m.OnBoot = func() { m.LinkDown = true }
		done := requireFailed(t, m.Run(j), "j", step.Unhealthy, true)
		assert.False(t, done.Record.RolledBack())
		assert.Empty(t, done.Record.Failure.Blames)
		assert.False(t, done.Record.NeedsIntervention())
		assert.Equal(t, 3, m.Boot)
	})
}

// A node that could not ask the API server before it changed anything learns nothing from its silence.
func TestNodeThatNeverReachedTheAPIServerWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		j := m.Bad(m.Job("j", id), "nic0")
		began := time.Now()
		m.OnBoot = func() {
			if m.Boot == 2 {
				m.APIAway = errAPIDown
			}
		}
		m.OnSnapshot = func(s engine.Snapshot) {
			if b := s.Job.Baseline; b != nil && m.Boot == 2 {
				b.Reached = false
			}
		}
		m.OnLook = func() {
			if time.Since(began) > 24*time.Hour {
				m.APIAway = nil
			}
		}
		gate := stepOf(requireRolledBack(t, m, m.Run(j), "j"), plan.Health, false)
		assert.Greater(t, gate.Finished.Sub(*gate.Started), 23*time.Hour)
	})
}

// The gate passes when the node has looked healthy without interruption: a link that comes and goes is not up.
func TestLinkThatFlapsIsNotHealthy(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateDeviceReset)
		j := m.Job("j", id)
		j.Soak = time.Minute
		flapped := false
		var at time.Time
		m.OnLook = func() {
			s := m.Snapshots[len(m.Snapshots)-1].Job
			if gate := stepOf(s, plan.Health, false); !flapped && gate.State == step.Running && time.Since(*gate.Started) > 30*time.Second {
				flapped, at, m.LinkDown, m.Boot = true, time.Now(), true, 2
			} else {
				m.LinkDown = false
			}
		}
		done := requireComplete(t, m, m.Run(j), "j")
		require.True(t, flapped)
		assert.GreaterOrEqual(t, stepOf(done, plan.Health, false).Finished.Sub(at), time.Minute)
	})
}

// The soak asks the API server when it begins and when it ends, and looks at the hardware between.
func TestSoakDoesNotPollAPIServer(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		j := m.Job("j", m.ReadBackNIC(inventory.ActivateDeviceReset))
		j.Soak = time.Hour
		requireComplete(t, m, m.Run(j), "j")
		for _, s := range m.Snapshots {
			require.Empty(t, s.Overdue, "a soak is progress")
		}
		assert.Equal(t, 3, m.Asked, "and before the job")
		assert.Greater(t, m.Looked, 100)
	})
}

// A link that never stays up for the soak is given up in bounded time.
func TestRollsBackFlappingLink(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		j := m.Job("j", m.ReadBackNIC(inventory.ActivateReboot))
		j.Soak = time.Minute
		m.OnLook = func() {
			m.LinkDown = m.Sim.Firmware("nic0").Running == "2.0" && time.Now().Second() < 20
		}
		done := requireRolledBack(t, m, m.Run(j), "j")
		gate := stepOf(done, plan.Health, false)
		assert.InDelta(t, 11*time.Minute, gate.Finished.Sub(*gate.Started), float64(time.Minute))
	})
}

// A slow boot is the boot of the machine. How late this process starts says nothing about firmware.
func TestSlowBootIsThatOfTheMachine(t *testing.T) {
	for name, c := range map[string]struct {
		took, late time.Duration
		rolledBack bool
	}{
		"the machine is slow":          {took: 40 * time.Minute, rolledBack: true},
		"the process is late":          {took: 3 * time.Minute, late: 10 * time.Hour},
		"nobody knows how long it was": {late: 10 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				m.BootTime.System = time.Minute
				m.OnBoot = func() {
					if m.BootTime.System = c.took; m.Boot > 2 {
						m.BootTime.System = time.Minute
					}
					<-time.After(c.late)
				}
				view := m.Run(m.Job("j", m.ReadBackNIC(inventory.ActivateReboot)))
				if !c.rolledBack {
					requireComplete(t, m, view, "j")
					return
				}
				done := requireRolledBack(t, m, view, "j")
				assert.Contains(t, done.Record.Failure.Message, "40m0s to boot")
			})
		})
	}
}

var errRefused = errors.New("etcdserver: no leader")

// gateOf runs a job with a soak of a minute whose gate, once the host has rebooted for the update, finds what at says of the
// time since then.
func gateOf(t *testing.T, m *enginetest.Machine, at func(since time.Duration)) journal.Job {
	t.Helper()
	j := m.Job("j", m.ReadBackNIC(inventory.ActivateReboot))
	j.Soak = time.Minute
	var boot time.Time
	m.OnBoot = func() { boot = time.Now() }
	m.OnLook = func() {
		m.APIAway, m.Refused, m.LinkDown, m.NodeReady = nil, nil, false, true
		if m.Boot == 2 {
			at(time.Since(boot))
		}
	}
	done := m.Run(j).Job(j.UID)
	require.NotNil(t, done)
	return *done
}

// The time in which the API server answers with errors says nothing about the host.
func TestErrorsOfTheAPIServerCountAgainstNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		done := gateOf(t, m, func(since time.Duration) {
			m.NodeReady = since > 11*time.Minute+10*time.Second
			if since > 5*time.Second && since < 11*time.Minute {
				m.Refused = errRefused
			}
		})
		assert.Equal(t, step.Complete, done.Record.Outcome)
		assert.False(t, done.Record.RolledBack())
	})
}

// A soak ends with a look that asks everything, however long the looks at the hardware take.
func TestSoakEndsWithALookThatAsksTheAPIServer(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		done := gateOf(t, m, func(since time.Duration) {
			<-time.After(5 * time.Second)
			m.NodeReady = since < 30*time.Second
		})
		assert.True(t, done.Record.RolledBack())
	})
}

// A link that stays down while the connection to the API server comes and goes is judged all the same.
func TestAnAPIServerThatComesAndGoesDoesNotKeepTheGateFromItsVerdict(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		done := gateOf(t, m, func(since time.Duration) {
			m.LinkDown = since < 24*time.Hour
			if since%(5*time.Minute) > 30*time.Second {
				m.APIAway = errAPIDown
			}
		})
		assert.True(t, done.Record.RolledBack())
		gate := stepOf(done, plan.Health, false)
		assert.Less(t, gate.Finished.Sub(*gate.Started), 3*time.Hour)
	})
}

// A host is cut off while nobody says how its Node is. An answer ends that.
func TestAnAnswerEndsTheIsolation(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		done := gateOf(t, m, func(since time.Duration) {
			m.LinkDown = since < 16*time.Minute
			if since < 5*time.Minute || since >= 9*time.Minute && since < 16*time.Minute {
				m.APIAway = errAPIDown
			}
		})
		assert.Equal(t, step.Complete, done.Record.Outcome)
		assert.False(t, done.Record.RolledBack())
	})
}

// An API server that answers errors, or a load balancer in front of it, does not keep a node from helping itself.
func TestBalancerHidesCutOff(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		began := time.Now()
		m.OnLook = func() {
			m.Refused = nil
			if m.Boot == 2 {
				m.Refused = errRefused
			}
		}
		j := m.Bad(m.Job("j", m.ReadBackNIC(inventory.ActivateReboot)), "nic0")
		done := requireRolledBack(t, m, m.Run(j), "j")
		assert.Contains(t, done.Record.Failure.Message, errRefused.Error())
		assert.Less(t, time.Since(began), time.Hour)
	})
}

// Only what the job changed keeps the wait going: a complaint about another device does not.
func TestAComplaintAboutAnotherDeviceDoesNotKeepTheIsolationGoing(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.Add(inventory.Disk, "disk0", inventory.ActivateNone)
		var all []inventory.Identity
		done := gateOf(t, m, func(since time.Duration) {
			if all == nil {
				all = m.IDs
			}
			m.IDs = all
			if since < 24*time.Hour {
				m.APIAway, m.IDs = errAPIDown, all[1:]
			}
			m.LinkDown = since < 10*time.Second || since > 11*time.Minute && since < 11*time.Minute+4*time.Second
		})
		require.Len(t, all, 2)
		assert.Equal(t, step.Complete, done.Record.Outcome)
		assert.False(t, done.Record.RolledBack())
	})
}
