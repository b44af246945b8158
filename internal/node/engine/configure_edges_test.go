package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// A device that does not report what is in force gets the activation for what an attempt stored whose end nobody saw.
func TestStoredSettingsOfAnUnseenEndAreActivated(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", inventory.Parameter{Name: "P", Next: inventory.Read("0"), Needs: inventory.ActivateReboot})
		m.Sim.Inject("nic0", drivertest.HalfConfigure)
		j := m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "P", Value: "1"})).Job("uid-j")
		t.Logf("%s %+v", j.Record.Outcome, j.Record.Failure)
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpReboot, ""), "reboot")
	})
}

// A setting that the device does not take says nothing about the image: the next job flashes it.
func TestAnInvalidSettingBlamesNoImage(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("VFS", "0", inventory.ActivateReboot))
		view := m.Run(told(m.Job("j", id), journal.Setting{Name: "VFS", Value: "128"}))
		t.Logf("%+v", view.Job("uid-j").Record.Failure)
		assert.Nil(t, view.Devices["nic0"].LastFailure, "%+v", view.Devices["nic0"].LastFailure)
		view = m.Run(told(m.Job("k", id), journal.Setting{Name: "VFS", Value: "8"}))
		assert.Equal(t, step.Complete, view.Job("uid-k").Record.Outcome, "%+v", view.Job("uid-k").Record.Failure)
	})
}

// What a device reports neither in force nor stored cannot be verified, and is refused before anything is written.
func TestSettingsOfWhatIsNotReportedAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", inventory.Parameter{Name: "MUTE", Needs: inventory.ActivateNone})
		view := m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "MUTE", Value: "1"}))
		j := view.Job("uid-j")
		t.Logf("held=%v %+v", j.Held(), j.Record.Failure)
		assert.False(t, j.Held())
	})
}

// Settings that are stored once more change nothing of what another device waits for.
func TestStoringAgainForgetsNoOtherDevice(t *testing.T) {
	for name, fault := range map[string]drivertest.Fault{"power": drivertest.NeedPower, "two": drivertest.TwoBoots} {
		for _, needs := range []inventory.Activation{inventory.ActivateNone, inventory.ActivateReboot} {
			t.Run(name+needs.String(), func(t *testing.T) {
				inBubble(t, func(t *testing.T, m *enginetest.Machine) {
					id := m.ReadBackNIC(inventory.ActivateReboot)
					id1 := m.AddWith(inventory.NIC, "nic1", inventory.Firmware{Activation: inventory.ActivateReboot, Rollback: inventory.RollbackReadBack})
					m.Sim.Give("nic0", number("VFS", "8", needs))
					m.Sim.Give("nic1", number("VFS", "8", needs))
					m.Sim.Inject("nic0", drivertest.FlashResets)
					m.Sim.Inject("nic1", fault)
					view := m.Run(told(m.Job("j", id, id1), journal.Setting{Name: "VFS", Value: "8"}))
					j := view.Job("uid-j")
					t.Logf("%s held=%v %+v rb=%+v", j.Record.Outcome, j.Held(), j.Record.Failure, j.Record.Rollback)
					if f := j.Record.Failure; f != nil {
						assert.Equal(t, step.PowerCycleRequired, f.Reason)
					}
				})
			})
		}
	}
}

// Settings that a boot takes are stored after each boot of the job.
func TestVolatileSettingsOutliveEachReboot(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		v := number("RT", "0", inventory.ActivateNone)
		v.Volatile = true
		m.Sim.Give("nic0", number("VFS", "8", inventory.ActivateReboot), v)
		m.Sim.Inject("nic0", drivertest.FlashResets)
		view := m.Run(told(m.Job("j", id), journal.Setting{Name: "VFS", Value: "8"}, journal.Setting{Name: "RT", Value: "1"}))
		j := view.Job("uid-j")
		assert.Equal(t, step.Complete, j.Record.Outcome, "%+v %+v", j.Record.Failure, j.Record.Rollback)
		assert.Equal(t, "1", current(m, id, "RT"))
	})
}

// So they are after the second boot of a host whose first one was slow.
func TestVolatileSettingsOutliveASlowBoot(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		v := number("RT", "0", inventory.ActivateNone)
		v.Volatile = true
		m.Sim.Give("nic0", v)
		m.BootTime = step.BootTime{System: time.Minute}
		m.OnBoot = func() {
			m.BootTime = step.BootTime{System: time.Minute}
			if m.Boot == 2 {
				m.BootTime = step.BootTime{System: 5 * time.Minute}
			}
		}
		view := m.Run(told(m.Job("j", id), journal.Setting{Name: "RT", Value: "1"}))
		j := view.Job("uid-j")
		assert.Equal(t, step.Complete, j.Record.Outcome, "%+v %+v", j.Record.Failure, j.Record.Rollback)
		assert.Equal(t, "1", current(m, id, "RT"))
	})
}

// What is reset gets the default that it had when the job began, whatever the new firmware has.
func TestADefaultIsThatOfThePlan(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("VFS", "0", inventory.ActivateReboot))
		m.Sim.Bring("nic0", "1.0", number("OTHER", "5", inventory.ActivateReboot))
		o := number("OTHER", "4", inventory.ActivateReboot)
		o.Default = inventory.Read("4")
		m.Sim.Bring("nic0", "2.0", o)
		j := told(m.Job("j", id), journal.Setting{Name: "VFS", Value: "8"})
		j.Updates[0].ResetUnlisted = true
		view := m.Run(j)
		got := view.Job("uid-j")
		assert.Equal(t, step.Complete, got.Record.Outcome, "%+v %+v", got.Record.Failure, got.Record.Rollback)
		assert.Nil(t, view.Devices["nic0"].LastFailure)
	})
}

// Each device of a job may lose its settings at a boot of its own.
func TestEachDeviceMayForgetItsSettings(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		id1 := m.AddWith(inventory.NIC, "nic1", inventory.Firmware{Activation: inventory.ActivateReboot, Rollback: inventory.RollbackReadBack})
		for _, n := range []string{"nic0", "nic1"} {
			m.Sim.Give(n, number("VFS", "8", inventory.ActivateReboot))
			m.Sim.Inject(n, drivertest.FlashResets)
		}
		m.Sim.Inject("nic1", drivertest.TwoBoots)
		view := m.Run(told(m.Job("j", id, id1), journal.Setting{Name: "VFS", Value: "8"}))
		j := view.Job("uid-j")
		assert.Equal(t, step.Complete, j.Record.Outcome, "%+v %+v", j.Record.Failure, j.Record.Rollback)
	})
}

// A device that lost its settings beside one that failed is taken back with it, and its image is not blamed.
func TestLostSettingsBesideAFailureBlameNoImage(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		id1 := m.AddWith(inventory.NIC, "nic1", inventory.Firmware{Activation: inventory.ActivateReboot, Rollback: inventory.RollbackReadBack})
		for _, n := range []string{"nic0", "nic1"} {
			m.Sim.Give(n, number("VFS", "8", inventory.ActivateReboot))
		}
		m.Sim.Inject("nic0", drivertest.RefuseBoot)
		m.Sim.Inject("nic1", drivertest.FlashResets)
		view := m.Run(told(m.Job("j", id, id1), journal.Setting{Name: "VFS", Value: "8"}))
		j := view.Job("uid-j")
		t.Logf("%+v", j.Record.Failure)
		assert.Nil(t, view.Devices["nic1"].LastFailure, "%+v", view.Devices["nic1"].LastFailure)
	})
}

// What a rollback gives back is what the device had before the first of the jobs that held the node.
func TestGoodSettingsAreThoseBeforeTheFirstJob(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("A", "1", inventory.ActivateReboot), number("B", "2", inventory.ActivateReboot))
		m.IgnoresReboots = true
		m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "A", Value: "8"}))
		k := settingsOnly(m, "k", id, journal.Setting{Name: "B", Value: "9"})
		r := "r"
		k.Retry = &r
		view := m.Run(k)
		t.Logf("%+v", view.Job("uid-k").Record.Failure)
		t.Logf("good %+v before %+v", view.Devices["nic0"].GoodSettings, view.Job("uid-k").Updates[0].Before)
		m.IgnoresReboots = false
		m.Sim.Unplugs("nic0", inventory.Setting{Name: "B", Value: "10"})
		l := settingsOnly(m, "l", id, journal.Setting{Name: "B", Value: "10"})
		l.Retry = &r
		view = m.Run(l)
		t.Logf("%+v", view.Job("uid-l").Record.Failure)
		assert.Equal(t, []string{"1", "2"}, []string{current(m, id, "A"), current(m, id, "B")})
	})
}

// onceSucceeded does something when the first step of the kind has succeeded.
func onceSucceeded(m *enginetest.Machine, kind plan.Kind, do func()) {
	done := false
	m.OnSnapshot = func(s engine.Snapshot) {
		is := func(st step.Step) bool { return st.Kind == kind && st.State == step.Succeeded }
		if !done && slices.ContainsFunc(s.Job.Record.Steps, is) {
			done = true
			do()
		}
	}
}

func doubted(name, value string, needs inventory.Activation) inventory.Parameter {
	return inventory.Parameter{Name: name, Next: inventory.Read(value), Needs: needs}
}

// Half of the settings was stored by an attempt whose end nobody saw, and the rest needs less: the greater need counts.
func TestHalfStoredSettingsGetTheGreaterActivation(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", doubted("A", "0", inventory.ActivateReboot), doubted("B", "0", inventory.ActivateNone))
		m.Sim.Inject("nic0", drivertest.HalfConfigure)
		m.OnSnapshot = func(engine.Snapshot) {
			if m.Sim.Count(drivertest.OpConfigure, "nic0") > 0 {
				m.Sim.Cure("nic0", drivertest.HalfConfigure)
			}
		}
		j := m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "A", Value: "1"}, journal.Setting{Name: "B", Value: "2"})).Job("uid-j")
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpReboot, ""), "%s %+v", j.Record.Outcome, j.Record.Failure)
	})
}

// A driver that changes between the write and the reboot makes the job begin again, and the reboot still comes.
func TestSettingsOutliveARestartOfTheSteps(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateDeviceReset)
		m.Sim.Give("nic0", doubted("A", "0", inventory.ActivateReboot))
		onceSucceeded(m, plan.Configure, func() {
			m.Sim.SetVersion("2")
			m.Stop()
		})
		j := m.Run(told(m.Job("j", id), journal.Setting{Name: "A", Value: "1"})).Job("uid-j")
		assert.EqualValues(t, 1, j.Record.Restarts)
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpReboot, ""), "%s %+v", j.Record.Outcome, j.Record.Failure)
	})
}

// A job that takes a held node over activates what the one before stored.
func TestAJobActivatesWhatTheHeldOneStored(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", doubted("A", "0", inventory.ActivateReboot))
		m.IgnoresReboots = true
		m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "A", Value: "1"}))
		m.IgnoresReboots = false
		k := m.Run(settingsOnly(m, "k", id, journal.Setting{Name: "A", Value: "1"})).Job("uid-k")
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpReboot, ""), "%s %+v released %d", k.Record.Outcome, k.Record.Failure, m.Window.Released)
	})
}

// A preflight that fails after a restart does not forget that settings cannot be given back.
func TestWhatCannotBeGivenBackIsNotForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", inventory.Parameter{Name: "MUTE", Needs: inventory.ActivateReboot})
		done := false
		m.OnSnapshot = func(s engine.Snapshot) {
			for _, st := range s.Job.Record.Steps {
				if st.Kind == plan.Configure && st.State == step.Succeeded && !done {
					done = true
					m.Sim.SetVersion("2")
					m.Sim.Inject("nic0", drivertest.Unreadable)
					m.Stop()
				}
			}
			if s.Job.Record.Failure != nil {
				m.Sim.Cure("nic0", drivertest.Unreadable)
			}
		}
		j := m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "MUTE", Value: "1"})).Job("uid-j")
		t.Logf("%s held=%v %+v rb=%+v noUndo=%q", j.Record.Outcome, j.Held(), j.Record.Failure, j.Record.Rollback, j.Record.Updates[0].NoUndo)
		t.Logf("MUTE next %s", m.Sim.Parameter("nic0", "MUTE").Next)
		assert.False(t, j.Record.RolledBack())
	})
}

// New firmware may have dropped a parameter that was to be reset.
func TestAParameterThatIsGoneNeedsNoDefault(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("VFS", "0", inventory.ActivateReboot))
		m.Sim.Bring("nic0", "1.0", number("OLD", "5", inventory.ActivateReboot))
		j := told(m.Job("j", id), journal.Setting{Name: "VFS", Value: "8"})
		j.Updates[0].ResetUnlisted = true
		got := m.Run(j).Job("uid-j")
		assert.Equal(t, step.Complete, got.Record.Outcome, "%+v", got.Record.Failure)
	})
}

// A job that changed settings alone did not apply the firmware that runs.
func TestSettingsAreNoAppliedFirmware(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("VFS", "0", inventory.ActivateNone))
		fw := m.Sim.Firmware("nic0")
		fw.Running, fw.Stored = "2.0", "2.0"
		m.Sim.SetFirmware("nic0", fw)
		view := m.Run(told(m.Job("j", id), journal.Setting{Name: "VFS", Value: "8"}))
		t.Logf("%+v", view.Job("uid-j").Record.Failure)
		assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "nic0"))
		assert.Nil(t, view.Devices["nic0"].LastApplied)
	})
}

// A setting of two parameters can be given back only where the device says both.
func TestASettingOfTwoParametersNeedsBothBack(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", inventory.Parameter{Name: "numVFs", Current: inventory.Read("0"), Sets: []string{"P1", "P2"}, Needs: inventory.ActivateReboot},
			number("P1", "0", inventory.ActivateReboot), inventory.Parameter{Name: "P2", Needs: inventory.ActivateReboot})
		j := settingsOnly(m, "j", id, journal.Setting{Name: "numVFs", Value: "8"})
		j.Record.RollbackRequired = true
		failed := requireFailed(t, m.Run(j), "j", step.RollbackUnavailable, false)
		assert.Contains(t, failed.Record.Failure.Message, "the device does not say what it stores for P2")
		assert.Zero(t, m.Window.Scheduled)
	})
}

// The power goes at any point, and the machine boots: an update ends with firmware and settings, a rollback with those from before.
func TestSettingsSurviveABootAnywhere(t *testing.T) {
	for _, bad := range []bool{false, true} {
		for _, reset := range []bool{true} {
			for _, fw := range []bool{true} {
				for _, needs := range []inventory.Activation{inventory.ActivateNone, inventory.ActivateReboot} {
					t.Run(fmt.Sprintf("bad=%v resets=%v fw=%v %s", bad, reset, fw, needs), func(t *testing.T) {
						for at := 1; ; at++ {
							reached := false
							inBubble(t, func(t *testing.T, m *enginetest.Machine) {
								id := m.ReadBackNIC(inventory.ActivateReboot)
								m.Sim.Give("nic0", number("VFS", "3", needs))
								if reset {
									m.Sim.Inject("nic0", drivertest.FlashResets)
								}
								if bad {
									m.Sim.Unplugs("nic0", inventory.Setting{Name: "VFS", Value: "8"})
								}
								m.CrashAt = at
								j := settingsOnly(m, "j", id, journal.Setting{Name: "VFS", Value: "8"})
								if fw {
									j = told(m.Job("j", id), journal.Setting{Name: "VFS", Value: "8"})
								}
								submit := []journal.Job{j}
								var view journal.View
								for range 60 {
									boot, was := m.Boot, m.Points
									var over bool
									view, over = m.Live(submit...)
									submit = nil
									if over {
										break
									}
									if was < at && m.Points >= at && m.Boot == boot {
										m.Boot++
										m.Sim.Reboot()
									}
								}
								got := view.Job("uid-j")
								if got == nil {
									reached = m.Points >= at
									return
								}
								reached = m.Points >= at
								want := "8"
								if bad {
									want = "3"
								}
								assert.Equal(t, want, current(m, id, "VFS"), "cut at %d: %+v", at, got.Record.Failure)
								if got.Held() {
									t.Logf("ROLLBACK FAILURE %+v", got.Record.Rollback.Failure)
								}
								assert.False(t, got.Held(), "cut at %d: %+v %+v", at, got.Record.Failure, got.Record.Rollback)
								if !bad {
									assert.Equal(t, step.Complete, got.Record.Outcome, "cut at %d: %+v", at, got.Record.Failure)
								}
							})
							if !reached || t.Failed() {
								break
							}
						}
					})
				}
			}
		}
	}
}

// A setting that turns out to be invalid after the device was written is taken back with the firmware.
func TestAnInvalidSettingAfterARestartIsTakenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("VFS", "0", inventory.ActivateReboot))
		m.OnBoot = func() { m.Sim.SetVersion("2") }
		j := m.Run(told(m.Job("j", id), journal.Setting{Name: "VSF", Value: "8"})).Job("uid-j")
		t.Logf("%s held=%v %+v rb=%+v", j.Record.Outcome, j.Held(), j.Record.Failure, j.Record.Rollback)
		assert.False(t, j.Held())
	})
}

// A gate that a job of settings passes vouches for the firmware that runs too.
func TestAGateAlsoVouchesForTheFirmware(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("VFS", "0", inventory.ActivateNone))
		m.IgnoresReboots = true
		m.Run(m.Job("j", id))
		m.IgnoresReboots = false
		m.Boot++
		m.Sim.Reboot()
		r := "r"
		k := settingsOnly(m, "k", id, journal.Setting{Name: "VFS", Value: "8"})
		k.Retry = &r
		view := m.Run(k)
		t.Logf("%s %+v running %s lastGood %q failure %+v", view.Job("uid-k").Record.Outcome, view.Job("uid-k").Record.Failure, m.Sim.Firmware("nic0").Running, view.Devices["nic0"].LastGood, view.Devices["nic0"].LastFailure)
		assert.Empty(t, view.Devices["nic0"].LastGood)
	})
}

// A value that is in force while another one waits for the next activation is stored, and that costs nothing.
func TestAValueThatWaitsIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("VFS", "3", inventory.ActivateReboot))
		m.Sim.Tell("nic0", "VFS", "8")
		j := m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "VFS", Value: "3"})).Job("uid-j")
		assert.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
		assert.Equal(t, "3", m.Sim.Parameter("nic0", "VFS").Next.Value)
		assert.Zero(t, m.Sim.Count(drivertest.OpReboot, ""))
	})
}

// A preflight that runs again after the device was told does not take for what it had what the job told it.
func TestWhatADeviceHadIsReadOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateDeviceReset)
		m.Sim.Give("nic0", number("VFS", "3", inventory.ActivateDeviceReset))
		m.Sim.Unplugs("nic0", inventory.Setting{Name: "VFS", Value: "8"})
		onceSucceeded(m, plan.Configure, func() {
			m.Sim.SetVersion("2")
			m.Stop()
		})
		failed := requireFailed(t, m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "VFS", Value: "8"})), "j", step.Unhealthy, false)
		assert.EqualValues(t, 1, failed.Record.Restarts)
		assert.Equal(t, "3", current(m, id, "VFS"))
	})
}

// A device that does not keep a value is told it once more, and then gets back what it had.
func TestSettingsAreStoredOnceMoreAndNoMore(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateDeviceReset)
		m.Sim.Give("nic0", number("VFS", "3", inventory.ActivateNone))
		rounds := 0
		m.OnSnapshot = func(s engine.Snapshot) {
			if c := s.Job.CurrentStep(); c != nil && c.Kind == plan.Verify && c.State == step.Running && !c.Rollback && rounds < 10 {
				rounds++
				m.Sim.Tell("nic0", "VFS", "4")
			}
		}
		failed := requireFailed(t, m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "VFS", Value: "8"})), "j", step.VerifyFailed, false)
		assert.True(t, failed.Record.RolledBack())
		assert.Equal(t, 2, rounds)
		assert.Equal(t, "3", current(m, id, "VFS"))
	})
}

// They are so too where the host boots between its health check and its return to service.
func TestVolatileSettingsOutliveABootBeforeTheRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		v := number("RT", "0", inventory.ActivateNone)
		v.Volatile, v.Disturbs = true, true
		m.Sim.Give("nic0", v)
		onceSucceeded(m, plan.Health, func() {
			m.RebootWanted = true
			m.Stop()
		})
		j := m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "RT", Value: "1"})).Job("uid-j")
		assert.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
		assert.Equal(t, 2, m.Boot)
		assert.Equal(t, "1", current(m, id, "RT"))
	})
}

// Where a job changed firmware and settings of a device, which of the two was at fault is not known, and no image is accused by one node.
func TestFirmwareAndSettingsTogetherAccuseNoImage(t *testing.T) {
	for _, withSettings := range []bool{false, true} {
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			id := m.ReadBackNIC(inventory.ActivateReboot)
			j := m.Bad(m.Job("j", id), "nic0")
			want := step.OfDevice
			if withSettings {
				m.Sim.Give("nic0", number("VFS", "3", inventory.ActivateReboot))
				j, want = told(j, journal.Setting{Name: "VFS", Value: "8"}), step.OfNode
			}
			failed := requireFailed(t, m.Run(j), "j", step.Unhealthy, false)
			assert.True(t, failed.Record.RolledBack())
			assert.Equal(t, want, failed.Record.Evidence())
		})
	}
}
