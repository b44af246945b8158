package drivertest_test

import (
	"testing"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestSimulatedConforms(t *testing.T) {
	for _, kind := range []inventory.Activation{
		inventory.ActivateNone, inventory.ActivateDeviceReset, inventory.ActivateDriverReload, inventory.ActivateReboot,
	} {
		for _, back := range []inventory.Rollback{
			inventory.RollbackNone, inventory.RollbackReadBack, inventory.RollbackSlot, inventory.RollbackImage,
		} {
			t.Run(kind.String()+" "+back.String(), func(t *testing.T) {
				fw := inventory.Firmware{Activation: kind, Rollback: back}
				if back == inventory.RollbackNone {
					fw.RollbackMessage = "it was made so"
				}
				drivertest.Run(t, func(t *testing.T) drivertest.Harness { return harness(t, fw) })
			})
		}
	}
	t.Run("quiet", func(t *testing.T) {
		drivertest.Run(t, func(t *testing.T) drivertest.Harness {
			h := harness(t, inventory.Firmware{Activation: inventory.ActivateReboot, Rollback: inventory.RollbackReadBack})
			h.Driver.(*drivertest.Simulated).Inject(card, drivertest.Quiet)
			return h
		})
	})
}

func harness(t *testing.T, fw inventory.Firmware) drivertest.Harness {
	t.Helper()
	sim, id := simulatedWith(fw)
	sim.Give(card, parameters(fw.Activation)...)
	sim.Erasable(card, make([]byte, 1<<20), driver.EraseCrypto, driver.EraseBlock)
	inject := func(f drivertest.Fault) func(*testing.T) {
		return func(*testing.T) { sim.Inject(card, f) }
	}
	damaged := drivertest.ImageBytes(board, "2.0.0")
	return drivertest.Harness{
		Driver:         sim,
		ID:             id,
		Image:          drivertest.NewImage(t, board, "2.0.0"),
		Other:          drivertest.NewImage(t, board, "3.0.0"),
		Previous:       drivertest.NewImage(t, board, "1.0.0"),
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
		FailRead:     inject(drivertest.FailArchive),
		FailErase:    inject(drivertest.FailErase),
		Settings: &drivertest.Settings{
			Set:      []inventory.Setting{{Name: "SRIOV_EN", Value: "1"}, {Name: "numVFs", Value: "8"}},
			Misfits:  []inventory.Setting{{Name: "numVFs", Value: "128"}, {Name: "SRIOV_EN", Value: "2"}},
			ReadOnly: "BOARD_REV",
			Stored:   func(_ *testing.T, name string) string { return sim.Parameter(card, name).Next.Value },
		},
		Stored: func(*testing.T) inventory.Version { return sim.Firmware(card).Stored },
	}
}

// parameters are those of a device whose values come into force by the kind of activation.
func parameters(kind inventory.Activation) []inventory.Parameter {
	return []inventory.Parameter{
		{
			Name: "numVFs", Current: inventory.Read("0"), Default: inventory.Read("0"), Needs: kind,
			Domain: inventory.Domain{Number: &inventory.Interval{Max: 127}}, Spelling: inventory.SpelledAsNumber,
		},
		{
			Name: "SRIOV_EN", Current: inventory.Read("0"), Needs: kind,
			Domain: inventory.Domain{Values: []string{"False(0)", "True(1)"}}, Spelling: inventory.SpelledWithCode,
		},
		{Name: "BOARD_REV", Current: inventory.Read("3"), Default: inventory.Read("3"), ReadOnly: "the vendor sets it"},
	}
}
