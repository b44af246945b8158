package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// told makes the job give every device the settings.
func told(j journal.Job, settings ...journal.Setting) journal.Job {
	for i := range j.Updates {
		j.Updates[i].Settings = settings
	}
	j.Record = engine.NewRecord(plan.Catalog{}, j.Updates)
	return j
}

// settingsOnly makes a job that gives the devices settings and no firmware.
func settingsOnly(m *enginetest.Machine, name string, id inventory.Identity, settings ...journal.Setting) journal.Job {
	j := m.Job(name, id)
	for i := range j.Updates {
		j.Updates[i].Version, j.Updates[i].FromVersion, j.Updates[i].Digest = "", "", ""
	}
	return told(j, settings...)
}

func number(name, value string, needs inventory.Activation) inventory.Parameter {
	return inventory.Parameter{
		Name: name, Current: inventory.Read(value), Default: inventory.Read("0"), Spelling: inventory.SpelledAsNumber,
		Domain: inventory.Domain{Number: &inventory.Interval{Max: 127}}, Needs: needs,
	}
}

func current(m *enginetest.Machine, id inventory.Identity, name string) string {
	return m.Sim.Parameter(id.UniqueID, name).Current.String()
}

// Firmware and settings of a device go in one maintenance with one reboot, and both are read back after it.
func TestFirmwareAndSettingsShareOneReboot(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("VFS", "0", inventory.ActivateReboot))
		view := m.Run(told(m.Job("j", id), journal.Setting{Name: "VFS", Value: "8"}))
		j := requireComplete(t, m, view, "j")
		assert.Equal(t, "8", current(m, id, "VFS"))
		assert.Equal(t, 1, m.Window.Scheduled)
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpReboot, ""))
		assert.False(t, j.Record.Updates[0].Reconfigured)
		assert.Equal(t, "the device runs 2.0, and its settings are in force", verification(j))
		assert.Empty(t, view.Devices["nic0"].GoodSettings)
	})
}

func verification(j journal.Job) string {
	for _, s := range j.Record.Steps {
		if s.Kind == plan.Verify && !s.Rollback {
			return s.Message
		}
	}
	return ""
}

// A job that changes settings alone writes no firmware, and activates the settings by the least that they need.
func TestSettingsAloneNeedWhatTheyNeed(t *testing.T) {
	for needs, reboots := range map[inventory.Activation]int{
		inventory.ActivateNone: 0, inventory.ActivateDeviceReset: 0, inventory.ActivateReboot: 1,
	} {
		t.Run(needs.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				id := m.ReadBackNIC(inventory.ActivateReboot)
				m.Sim.Give("nic0", number("VFS", "0", needs))
				view := m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "VFS", Value: "8"}))
				j := view.Job("uid-j")
				require.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
				assert.Equal(t, "8", current(m, id, "VFS"))
				assert.Equal(t, reboots, m.Sim.Count(drivertest.OpReboot, ""))
				assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "nic0"))
				assert.Nil(t, view.Devices["nic0"].LastApplied)
			})
		})
	}
}

// Settings that are in force already disturb nothing, beside firmware that runs already neither: the node stays in service.
func TestSettingsInForceDisturbNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("VFS", "8", inventory.ActivateReboot))
		view := m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "VFS", Value: "0x8"}))
		require.Equal(t, step.Complete, view.Job("uid-j").Record.Outcome)
		assert.Zero(t, m.Window.Scheduled)
		assert.Empty(t, m.Sim.Operations())

		m.Sim.SetFirmware("nic0", inventory.Firmware{Running: "2.0", Stored: "2.0", Activation: inventory.ActivateReboot})
		view = m.Run(told(m.Job("with-firmware", id), journal.Setting{Name: "VFS", Value: "8"}))
		require.Equal(t, step.Complete, view.Job("uid-with-firmware").Record.Outcome)
		assert.Zero(t, m.Window.Scheduled)
		assert.Empty(t, m.Sim.Operations())
	})
}

// A flash that resets the configuration of the device ends with the declared values in force again, in the same maintenance.
func TestAFlashThatResetsSettingsEndsWithThem(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("VFS", "8", inventory.ActivateReboot))
		m.Sim.Inject("nic0", drivertest.FlashResets)
		view := m.Run(told(m.Job("j", id), journal.Setting{Name: "VFS", Value: "8"}))
		j := requireComplete(t, m, view, "j")
		assert.Equal(t, "8", current(m, id, "VFS"))
		assert.True(t, j.Record.Updates[0].Reconfigured)
		assert.Equal(t, 2, m.Sim.Count(drivertest.OpReboot, ""))
		assert.Equal(t, 2, j.Record.Reboots())
		assert.Equal(t, 1, m.Window.Scheduled)
	})
}

// A parameter that only the new firmware has is set once that runs, in the same maintenance.
func TestAParameterOfTheNewFirmwareIsSetOnceThatRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("VFS", "0", inventory.ActivateReboot))
		m.Sim.Bring("nic0", "2.0", number("NEW", "0", inventory.ActivateNone))
		view := m.Run(told(m.Job("j", id), journal.Setting{Name: "VFS", Value: "8"}, journal.Setting{Name: "NEW", Value: "1"}))
		requireComplete(t, m, view, "j")
		assert.Equal(t, "8", current(m, id, "VFS"))
		assert.Equal(t, "1", current(m, id, "NEW"))
		assert.Equal(t, 1, m.Window.Scheduled)
	})
}

// What the device does not take is refused before the node is disturbed, with what it takes.
func TestInvalidSettingsAreRefusedBeforeTheNodeIsDisturbed(t *testing.T) {
	for name, s := range map[string]journal.Setting{
		"the nearest are VFS": {Name: "VSF", Value: "8"}, "it takes numbers from 0 to 127": {Name: "VFS", Value: "128"},
		"cannot be changed": {Name: "SERIAL", Value: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				id := m.ReadBackNIC(inventory.ActivateReboot)
				serial := number("SERIAL", "7", inventory.ActivateNone)
				serial.ReadOnly = "the vendor sets it"
				m.Sim.Give("nic0", number("VFS", "0", inventory.ActivateReboot), serial)
				view := m.Run(settingsOnly(m, "j", id, s))
				j := requireFailed(t, view, "j", step.ParameterInvalid, false)
				assert.Contains(t, j.Record.Failure.Message, name)
				assert.Zero(t, m.Window.Scheduled)
				assert.Empty(t, m.Sim.Operations())
			})
		})
	}
}

// A setting that takes the link down is rolled back to what the device had, firmware and settings, and the node returns to service.
func TestASettingThatTakesTheLinkDownIsRolledBack(t *testing.T) {
	for _, withFirmware := range []bool{false, true} {
		t.Run(map[bool]string{false: "settings alone", true: "with firmware"}[withFirmware], func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				id := m.ReadBackNIC(inventory.ActivateReboot)
				m.Sim.Give("nic0", number("LINK", "1", inventory.ActivateReboot), number("VFS", "3", inventory.ActivateReboot))
				m.Sim.Unplugs("nic0", inventory.Setting{Name: "LINK", Value: "0"})
				wanted := []journal.Setting{{Name: "LINK", Value: "0"}, {Name: "VFS", Value: "8"}}
				j := settingsOnly(m, "j", id, wanted...)
				if withFirmware {
					j = told(m.Job("j", id), wanted...)
				}
				view := m.Run(j)
				failed := requireFailed(t, view, "j", step.Unhealthy, false)
				assert.True(t, failed.Record.RolledBack())
				assert.Equal(t, "1", current(m, id, "LINK"))
				assert.Equal(t, "3", current(m, id, "VFS"))
				assert.Equal(t, inventory.Version("1.0"), m.Sim.Firmware("nic0").Running)
				assert.Equal(t, 2, m.Sim.Count(drivertest.OpReboot, ""))
				assert.Equal(t, 1, m.Window.Released)
				assert.Empty(t, view.Devices["nic0"].GoodSettings)
			})
		})
	}
}

// All that is not declared gets its default where that is asked for, and comes back in a rollback.
func TestUnlistedSettingsGetTheirDefaults(t *testing.T) {
	for _, bad := range []bool{false, true} {
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			id := m.ReadBackNIC(inventory.ActivateReboot)
			m.Sim.Give("nic0", number("VFS", "3", inventory.ActivateReboot), number("OTHER", "5", inventory.ActivateReboot))
			if bad {
				m.Sim.Unplugs("nic0", inventory.Setting{Name: "OTHER", Value: "0"})
			}
			j := settingsOnly(m, "j", id, journal.Setting{Name: "VFS", Value: "8"})
			j.Updates[0].ResetUnlisted = true
			view := m.Run(j)
			if bad {
				requireFailed(t, view, "j", step.Unhealthy, false)
				assert.Equal(t, []string{"3", "5"}, []string{current(m, id, "VFS"), current(m, id, "OTHER")})
				return
			}
			assert.Equal(t, step.Complete, view.Job("uid-j").Record.Outcome)
			assert.Equal(t, []string{"8", "0"}, []string{current(m, id, "VFS"), current(m, id, "OTHER")})
		})
	}
}

// A write that was cut off in the middle, and whose end nobody saw, is completed.
func TestSettingsThatWereCutOffAreCompleted(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("A", "0", inventory.ActivateReboot), number("B", "0", inventory.ActivateReboot))
		m.Sim.Inject("nic0", drivertest.HalfConfigure)
		m.OnSnapshot = func(s engine.Snapshot) {
			if m.Sim.Count(drivertest.OpConfigure, "nic0") > 0 {
				m.Sim.Cure("nic0", drivertest.HalfConfigure)
			}
		}
		view := m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "A", Value: "1"}, journal.Setting{Name: "B", Value: "2"}))
		require.Equal(t, step.Complete, view.Job("uid-j").Record.Outcome, "%+v", view.Job("uid-j").Record.Failure)
		assert.Equal(t, []string{"1", "2"}, []string{current(m, id, "A"), current(m, id, "B")})
	})
}

// A tool that fails leaves the device as it was: what it may have stored is given back, and the node returns to service.
func TestSettingsThatCannotBeStoredAreGivenBack(t *testing.T) {
	for fault, reason := range map[drivertest.Fault]step.Reason{drivertest.FailWrite: step.WriteFailed, drivertest.LieWrite: step.VerifyFailed} {
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			id := m.ReadBackNIC(inventory.ActivateReboot)
			m.Sim.Give("nic0", number("VFS", "3", inventory.ActivateReboot))
			m.Sim.Inject("nic0", fault)
			failed := requireFailed(t, m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "VFS", Value: "8"})), "j", reason, false)
			assert.True(t, failed.Record.RolledBack())
			assert.Equal(t, "3", current(m, id, "VFS"))
			assert.Zero(t, m.Sim.Count(drivertest.OpReboot, ""))
		})
	}
}

// Settings of which a tool can store but a part are given back, those that it stored too.
func TestHalfStoredSettingsAreGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		var wanted []journal.Setting
		for _, name := range []string{"A", "B", "C"} {
			m.Sim.Give("nic0", number(name, "3", inventory.ActivateDeviceReset))
			wanted = append(wanted, journal.Setting{Name: name, Value: "8"})
		}
		m.Sim.Inject("nic0", drivertest.HalfConfigure)
		stored := false
		m.OnSnapshot = func(s engine.Snapshot) {
			stored = stored || m.Sim.Parameter("nic0", "A").Next.Value == "8"
			if s.Job.Record.Rollback != nil {
				m.Sim.Cure("nic0", drivertest.HalfConfigure)
			}
		}
		failed := requireFailed(t, m.Run(settingsOnly(m, "j", id, wanted...)), "j", step.WriteFailed, false)
		assert.True(t, stored)
		assert.True(t, failed.Record.RolledBack())
		for _, name := range []string{"A", "B", "C"} {
			assert.Equal(t, "3", m.Sim.Parameter("nic0", name).Next.Value)
		}
	})
}

// A power cut at any point of a job with firmware and settings ends with both in force, and with one at any point of a rollback with neither.
func TestSettingsSurviveAPowerCutAnywhere(t *testing.T) {
	for _, bad := range []bool{false, true} {
		t.Run(map[bool]string{false: "update", true: "rollback"}[bad], func(t *testing.T) {
			for at := 1; ; at++ {
				reached := false
				inBubble(t, func(t *testing.T, m *enginetest.Machine) {
					id := m.ReadBackNIC(inventory.ActivateReboot)
					m.Sim.Give("nic0", number("VFS", "3", inventory.ActivateReboot))
					m.Sim.Inject("nic0", drivertest.FlashResets)
					if bad {
						m.Sim.Unplugs("nic0", inventory.Setting{Name: "VFS", Value: "8"})
					}
					m.CrashAt = at
					view := m.Run(told(m.Job("j", id), journal.Setting{Name: "VFS", Value: "8"}))
					reached = m.Points >= at
					want, version := "8", inventory.Version("2.0")
					if bad {
						want, version = "3", "1.0"
					}
					assert.Equal(t, want, current(m, id, "VFS"), "cut at %d: %+v", at, view.Job("uid-j").Record.Failure)
					assert.Equal(t, version, m.Sim.Firmware("nic0").Running, "cut at %d", at)
					assert.False(t, view.Job("uid-j").Held(), "cut at %d: %+v", at, view.Job("uid-j").Record.Failure)
				})
				if !reached || t.Failed() {
					break
				}
			}
		})
	}
}

// Settings that failed are remembered as such, and not against the image. They are not tried again until a person asks for it, and a later
// success forgets them.
func TestFailedSettingsAreRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("VFS", "0", inventory.ActivateReboot))
		known := func(j journal.Job, digest string) journal.Job {
			j.Updates[0].Configuration = digest
			return j
		}
		view := m.Run(known(told(m.Job("a", id), journal.Setting{Name: "VFS", Value: "999"}), "sha256:bad"))
		is := view.Devices["nic0"]
		assert.Nil(t, is.LastFailure, "nothing is wrong with the image")
		require.NotNil(t, is.SettingsFailure)
		assert.Equal(t, "sha256:bad", is.SettingsFailure.Digest)
		assert.Equal(t, string(step.ParameterInvalid), is.SettingsFailure.Reason)
		assert.Equal(t, "a", is.SettingsFailure.Job)

		again := known(settingsOnly(m, "b", id, journal.Setting{Name: "VFS", Value: "999"}), "sha256:bad")
		view = m.Run(again)
		assert.Equal(t, step.Quarantined, view.Job("uid-b").Record.Failure.Reason)
		assert.Equal(t, is, view.Devices["nic0"], "it is the same failure")
		again.Name, again.UID, again.Retry = "c", "uid-c", plan.Clearance("mended").InForce()
		view = m.Run(again)
		assert.Equal(t, step.ParameterInvalid, view.Job("uid-c").Record.Failure.Reason, "a person asked for it")

		view = m.Run(m.Job("d", id))
		requireComplete(t, m, view, "d")
		assert.Equal(t, "c", view.Devices["nic0"].SettingsFailure.Job, "firmware alone says nothing about settings")
		view = m.Run(known(settingsOnly(m, "e", id, journal.Setting{Name: "VFS", Value: "8"}), "sha256:good"))
		require.Equal(t, step.Complete, view.Job("uid-e").Record.Outcome, "%+v", view.Job("uid-e").Record.Failure)
		assert.Nil(t, view.Devices["nic0"].SettingsFailure)
	})
}

// Settings that come into force at once and disturb nothing are changed while the node is in service, judged by the same gate, and undone
// there.
func TestQuietSettingsLeaveTheNodeInService(t *testing.T) {
	quiet := number("MRRS", "1", inventory.ActivateNone)
	t.Run("they are good", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			id := m.ReadBackNIC(inventory.ActivateReboot)
			m.Sim.Give("nic0", quiet)
			view := m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "MRRS", Value: "8"}))
			j := view.Job("uid-j")
			require.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
			assert.Equal(t, "8", current(m, id, "MRRS"))
			assert.Zero(t, m.Window.Scheduled)
			assert.True(t, j.Record.Verdict.Healthy)
		})
	})
	t.Run("they take the link down", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			id := m.ReadBackNIC(inventory.ActivateReboot)
			m.Sim.Give("nic0", quiet)
			m.Sim.Unplugs("nic0", inventory.Setting{Name: "MRRS", Value: "8"})
			view := m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "MRRS", Value: "8"}))
			j := requireFailed(t, view, "j", step.Unhealthy, false)
			assert.True(t, j.Record.RolledBack())
			assert.Equal(t, "1", current(m, id, "MRRS"))
			assert.Zero(t, m.Window.Scheduled)
		})
	})
	t.Run("they cannot be undone", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			id := m.ReadBackNIC(inventory.ActivateReboot)
			m.Sim.Give("nic0", quiet)
			m.Sim.Unplugs("nic0", inventory.Setting{Name: "MRRS", Value: "8"})
			m.OnSnapshot = func(s engine.Snapshot) {
				if s.Job.Record.Rollback != nil {
					m.Sim.Inject("nic0", drivertest.FailWrite)
				}
			}
			view := m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "MRRS", Value: "8"}))
			requireFailed(t, view, "j", step.Unhealthy, false)
			assert.NotNil(t, view.Devices["nic0"].Unhealthy)
			assert.Zero(t, m.Window.Scheduled)
		})
	})
	for name, c := range map[string]func(m *enginetest.Machine, id inventory.Identity) journal.Job{
		"one of them needs a reset": func(m *enginetest.Machine, id inventory.Identity) journal.Job {
			m.Sim.Give("nic0", quiet, number("VFS", "0", inventory.ActivateDeviceReset))
			return settingsOnly(m, "j", id, journal.Setting{Name: "MRRS", Value: "8"}, journal.Setting{Name: "VFS", Value: "8"})
		},
		"one of them interrupts the link": func(m *enginetest.Machine, id inventory.Identity) journal.Job {
			p := quiet
			p.Disturbs = true
			m.Sim.Give("nic0", p)
			return settingsOnly(m, "j", id, journal.Setting{Name: "MRRS", Value: "8"})
		},
		"the device gets firmware too": func(m *enginetest.Machine, id inventory.Identity) journal.Job {
			m.Sim.Give("nic0", quiet)
			return told(m.Job("j", id), journal.Setting{Name: "MRRS", Value: "8"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				id := m.ReadBackNIC(inventory.ActivateReboot)
				view := m.Run(c(m, id))
				require.Equal(t, step.Complete, view.Job("uid-j").Record.Outcome, "%+v", view.Job("uid-j").Record.Failure)
				assert.Equal(t, 1, m.Window.Scheduled)
			})
		})
	}
}

// What a drain moves is moved: settings of a device that containers use take a maintenance, and are refused only if it is in use after that. Then
// nothing is written, the firmware neither.
func TestSettingsOfADeviceInUseWaitForTheDrain(t *testing.T) {
	for name, c := range map[string]struct {
		firmware, freed bool
	}{
		"quiet settings": {freed: true}, "with firmware": {firmware: true, freed: true}, "the drain frees nothing": {}, "nor with firmware": {firmware: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				id := m.ReadBackNIC(inventory.ActivateReboot)
				m.Sim.Give("nic0", number("VFS", "4", inventory.ActivateNone))
				m.Sim.Inject("nic0", drivertest.InUse)
				if c.freed {
					m.Window.OnReady = func() { m.Sim.Cure("nic0", drivertest.InUse) }
				}
				j := settingsOnly(m, "j", id, journal.Setting{Name: "VFS", Value: "8"})
				if c.firmware {
					j = told(m.Job("j", id), journal.Setting{Name: "VFS", Value: "8"})
				}
				j.Updates[0].Configuration = "sha256:c"
				view := m.Run(j)
				assert.Equal(t, 1, m.Window.Scheduled)
				assert.Equal(t, step.MaintenanceNone, m.Window.Phase)
				if c.freed {
					require.Equal(t, step.Complete, view.Job("uid-j").Record.Outcome, "%+v", view.Job("uid-j").Record.Failure)
					assert.Equal(t, "8", current(m, id, "VFS"))
					return
				}
				failed := requireFailed(t, view, "j", step.ParameterInvalid, false)
				assert.Contains(t, failed.Record.Failure.Message, "InUse: a container has it")
				assert.Empty(t, m.Sim.Operations())
				assert.Nil(t, view.Devices["nic0"].LastFailure, "nothing is wrong with the image")
				assert.Equal(t, string(step.ParameterInvalid), view.Devices["nic0"].SettingsFailure.Reason)
			})
		})
	}
}

// Of a job with several devices nothing is written either, whichever of them is in use, and the node is not held.
func TestADeviceInUseEndsTheJobBeforeAnyOtherIsWritten(t *testing.T) {
	for _, alsoFirmware := range []bool{true, false} {
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			first := m.ReadBackNIC(inventory.ActivateReboot)
			second := m.AddWith(inventory.NIC, "nic1", inventory.Firmware{Activation: inventory.ActivateReboot, Rollback: inventory.RollbackReadBack})
			m.Sim.Give("nic1", number("VFS", "4", inventory.ActivateNone))
			m.Sim.Inject("nic1", drivertest.InUse)
			j := m.Job("j", first, second)
			if u := &j.Updates[1]; !alsoFirmware {
				u.Version, u.FromVersion, u.Digest = "", "", ""
			}
			j.Updates[1].Settings, j.Updates[1].Configuration = []journal.Setting{{Name: "VFS", Value: "8"}}, "sha256:c"
			j.Record = engine.NewRecord(plan.Catalog{}, j.Updates)
			view := m.Run(j)
			failed := requireFailed(t, view, "j", step.ParameterInvalid, false)
			assert.Equal(t, "node-nic1", failed.Record.Failure.Device)
			assert.Contains(t, failed.Record.Failure.Message, "InUse: a container has it, also now that the node is out of service; nothing was written")
			assert.Empty(t, m.Sim.Operations())
			assert.Equal(t, step.MaintenanceNone, m.Window.Phase)
			assert.Nil(t, view.Devices["nic0"].LastFailure)
			assert.NotNil(t, view.Devices["nic1"].SettingsFailure)
		})
	}
}

// A device that comes into use on a node in service gets its settings in a maintenance.
func TestADeviceThatComesIntoUseWaitsForTheDrain(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("VFS", "4", inventory.ActivateNone))
		once := false
		m.OnSnapshot = func(s engine.Snapshot) {
			if s.Job.Record.InService && !once {
				once = true
				m.Sim.Inject("nic0", drivertest.InUse)
			}
		}
		m.Window.OnReady = func() { m.Sim.Cure("nic0", drivertest.InUse) }
		view := m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "VFS", Value: "8"}))
		require.Equal(t, step.Complete, view.Job("uid-j").Record.Outcome, "%+v", view.Job("uid-j").Record.Failure)
		assert.Equal(t, "8", current(m, id, "VFS"))
		assert.Equal(t, 1, m.Window.Scheduled)
	})
}

// Where nothing drains the node, a device in use is refused at once.
func TestWithoutADrainADeviceInUseIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.Undrained = true
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("VFS", "4", inventory.ActivateNone))
		m.Sim.Inject("nic0", drivertest.InUse)
		view := m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "VFS", Value: "8"}))
		failed := requireFailed(t, view, "j", step.ParameterInvalid, false)
		assert.Equal(t, plan.Preflight, failed.Record.Failure.Step)
		assert.Empty(t, m.Sim.Operations())
	})
}

// A node in service is not held, and no setting is left there that was not found good, whatever happens on the way.
func TestQuietSettingsEndWellOnANodeInService(t *testing.T) {
	quiet := func(m *enginetest.Machine) (inventory.Identity, journal.Job) {
		id := m.ReadBackNIC(inventory.ActivateReboot)
		m.Sim.Give("nic0", number("MRRS", "1", inventory.ActivateNone))
		m.Sim.Unplugs("nic0", inventory.Setting{Name: "MRRS", Value: "8"})
		return id, settingsOnly(m, "j", id, journal.Setting{Name: "MRRS", Value: "8"})
	}
	t.Run("a driver changes before the gate", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			id, j := quiet(m)
			once := false
			m.OnSnapshot = func(s engine.Snapshot) {
				if c := s.Job.CurrentStep(); c != nil && c.Kind == plan.Health && !c.Rollback && !once {
					once = true
					m.Sim.SetVersion("2")
					m.Stop()
				}
			}
			failed := requireFailed(t, m.Run(j), "j", step.Unhealthy, false)
			assert.EqualValues(t, 1, failed.Record.Restarts)
			assert.True(t, failed.Record.RolledBack())
			assert.Equal(t, "1", current(m, id, "MRRS"))
			assert.Zero(t, m.Window.Scheduled)
		})
	})
	later := func(t *testing.T, at func(step.Record) bool) (failed journal.Job, m *enginetest.Machine) {
		inBubble(t, func(t *testing.T, in *enginetest.Machine) {
			m = in
			id := m.ReadBackNIC(inventory.ActivateReboot)
			m.Sim.Give("nic0", number("MRRS", "1", inventory.ActivateNone))
			once := false
			m.OnSnapshot = func(s engine.Snapshot) {
				if at(s.Job.Record) && !once {
					once = true
					m.Sim.Costs("nic0", "MRRS", inventory.ActivateReboot)
				}
			}
			failed = *m.Run(settingsOnly(m, "j", id, journal.Setting{Name: "MRRS", Value: "8"})).Job("uid-j")
		})
		return failed, m
	}
	t.Run("a reboot turns out to be needed before anything is stored", func(t *testing.T) {
		j, m := later(t, func(r step.Record) bool { return r.InService })
		require.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
		assert.Equal(t, 1, m.Window.Scheduled)
		assert.Equal(t, "8", m.Sim.Parameter("nic0", "MRRS").Current.String())
	})
	t.Run("a reboot turns out to be needed afterwards", func(t *testing.T) {
		j, m := later(t, func(r step.Record) bool {
			i := r.Current()
			return i >= 0 && r.Steps[i].Kind == plan.Configure && r.Steps[i].State == step.Running
		})
		require.NotNil(t, j.Record.Failure)
		assert.Equal(t, step.VerifyFailed, j.Record.Failure.Reason)
		assert.False(t, j.Record.Failure.Held)
		assert.True(t, j.Record.RolledBack(), "%+v", j.Record.Rollback)
		assert.Equal(t, "1", m.Sim.Parameter("nic0", "MRRS").Next.String())
		assert.Zero(t, m.Sim.Count(drivertest.OpReboot, "")+m.Window.Scheduled)
		assert.Contains(t, j.Record.Failure.Message, "the node is in service and is not disturbed for it")
	})
}
