package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// A host that cannot be asked for a reboot is not left with an image that waits for one.
func TestNoSystemctlWritesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.NoInit = errors.New("nsenter: failed to execute systemctl: No such file or directory")
		view := m.Run(m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateReboot)))
		failure := requireFailed(t, view, "j", step.UnhealthyBefore, false).Record.Failure
		assert.Contains(t, failure.Message, "nothing was changed, because the host cannot be rebooted: nsenter: failed to execute systemctl")
		assert.Empty(t, m.Sim.Operations())
		assert.Zero(t, m.Window.Scheduled)
		assert.Nil(t, view.Devices["nic0"].LastFailure, "it is planned again by itself")

		requireComplete(t, m, m.Run(m.Job("live", m.Add(inventory.Disk, "disk0", inventory.ActivateNone))), "live")
	})
}

// What refuses a reboot says something else each time, and is asked for a quarter of an hour all the same.
func TestHostThatRefusesIsAskedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		lasts time.Duration
		fails bool
	}{"for a while": {10 * time.Minute, false}, "for ever": {100 * time.Hour, true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				var from, last time.Time
				m.RefusesReboot = func() error {
					if from.IsZero() {
						from = time.Now()
					}
					if last = time.Now(); last.Sub(from) >= c.lasts {
						return nil
					}
					return fmt.Errorf("active block inhibitor, request %d", m.RebootsAsked)
				}
				view := m.Run(m.Job("j", m.Add(inventory.BIOS, "bios", inventory.ActivateReboot)))
				assert.Greater(t, m.RebootsAsked, 10)
				assert.Less(t, m.RebootsAsked, 200)
				if !c.fails {
					requireComplete(t, m, view, "j")
					assert.Equal(t, 2, m.Boot)
					return
				}
				failure := requireFailed(t, view, "j", step.RebootFailed, true).Record.Failure
				assert.InDelta(t, step.DefaultLimits().Reboot, last.Sub(from), float64(time.Minute))
				assert.Empty(t, failure.Blames)
			})
		})
	}
}

func TestKexecIsRebootedAgain(t *testing.T) {
	for kexecs, fails := range []bool{false, false, false, true} {
		t.Run(fmt.Sprint(kexecs), func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				m.Kexecs = kexecs
				view := m.Run(m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateReboot)))
				assert.Equal(t, min(kexecs, 2)+2, m.Boot)
				if !fails {
					requireComplete(t, m, view, "j")
					return
				}
				failure := requireFailed(t, view, "j", step.RebootFailed, true).Record.Failure
				assert.Empty(t, failure.Blames, "the image is not at fault")
				assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "nic0"))
			})
		})
	}
	t.Run("by the boot loader", func(t *testing.T) { // LinuxBoot starts every kernel so, after a reset
		inBubble(t, func(t *testing.T, m *enginetest.Machine) {
			m.Kexec = true
			m.OnBoot = func() { m.Kexec = true }
			requireComplete(t, m, m.Run(m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateReboot))), "j")
		})
	})
}
