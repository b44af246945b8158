package drivertest_test

import (
	"testing"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestSimulatedConforms(t *testing.T) {
	for _, kind := range []inventory.Activation{
		inventory.ActivateNone, inventory.ActivateDeviceReset, inventory.ActivateDriverReload, inventory.ActivateReboot,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			drivertest.Run(t, func(t *testing.T) drivertest.Harness {
				sim, id := simulated(kind)
				inject := func(f drivertest.Fault) func(*testing.T) {
					return func(*testing.T) { sim.Inject(card, f) }
				}
				damaged := drivertest.ImageBytes(board, "2.0.0")
				return drivertest.Harness{
					Driver:         sim,
					ID:             id,
					Image:          drivertest.NewImage(t, board, "2.0.0"),
					Other:          drivertest.NewImage(t, board, "3.0.0"),
					WrongBoard:     drivertest.NewImage(t, "MT_0000000001", "2.0.0"),
					Damaged:        drivertest.SaveImage(t, "2.0.0", damaged[:len(damaged)-100]),
					SelfDescribing: true,
					Reboot:         func(*testing.T) { sim.Reboot() },
					Garbage: func(*testing.T) {
						sim.Inject(card, drivertest.Unreadable)
						sim.Inject(card, drivertest.WrongBoard)
					},
					Unreadable: inject(drivertest.Unreadable),
					FailWrite:  func(_ *testing.T, stderr string) { sim.FailWrite(card, stderr) },
					LieWrite:   inject(drivertest.LieWrite),
					HangWrite: func(*testing.T) (func() bool, func()) {
						sim.Inject(card, drivertest.HangWrite)
						return func() bool { return sim.Busy(card) }, func() { sim.Release(card) }
					},
					WriteRunning: func(_ *testing.T, lock string) bool { return sim.Busy(lock) },
					Stored:       func(*testing.T) inventory.Version { return sim.Firmware(card).Stored },
				}
			})
		})
	}
}
