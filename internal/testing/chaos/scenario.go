package chaos

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Scenario is a host and the job it is given.
type Scenario struct {
	Name    string
	Devices []DeviceSpec
	// RollbackRequired refuses devices whose firmware could not be restored.
	RollbackRequired bool
}

// DeviceSpec is one device of a scenario.
type DeviceSpec struct {
	ID         string
	Class      inventory.Class
	Activation inventory.Activation
	Rollback   inventory.Rollback
	// Defect of the new firmware, which shows only once it runs.
	Defect Defect
	// Quiet devices do not report what they store.
	Quiet bool
	// NeedsMore makes the device ask for a reboot instead of its reset.
	NeedsMore bool
	// Unsafe devices have one copy of their firmware: a torn write leaves garbage and never the old image.
	Unsafe bool
	// Refuses the new firmware at boot and says why.
	Refuses bool
	// Staged devices hold the new firmware when the job begins.
	Staged bool
}

// Defect is a defect of a firmware that passes every check.
type Defect string

// The defects.
const (
	Sound      Defect = ""
	LinkDown   Defect = "link-down"
	DeviceMute Defect = "mute"
)

// Scenarios are the scenarios of the boundary campaign, which injects every possible fault at every boundary.
func Scenarios() []Scenario {
	const (
		reset, reboot  = inventory.ActivateDeviceReset, inventory.ActivateReboot
		readBack, slot = inventory.RollbackReadBack, inventory.RollbackSlot
		image, none    = inventory.RollbackImage, inventory.RollbackNone
	)
	nic := func(a inventory.Activation, r inventory.Rollback, d Defect) DeviceSpec {
		return DeviceSpec{ID: "nic0", Class: inventory.NIC, Activation: a, Rollback: r, Defect: d}
	}
	disk := DeviceSpec{ID: "disk0", Class: inventory.Disk, Activation: reset, Rollback: slot}
	bios := DeviceSpec{ID: "bios", Class: inventory.BIOS, Activation: reboot, Rollback: image, Unsafe: true}
	return []Scenario{
		{Name: "nic-reset", Devices: []DeviceSpec{nic(reset, readBack, Sound)}},
		{Name: "nic-reboot", Devices: []DeviceSpec{nic(reboot, readBack, Sound)}},
		{Name: "disk-slot", Devices: []DeviceSpec{disk}, RollbackRequired: true},
		{Name: "bios-image", Devices: []DeviceSpec{bios}},
		{Name: "bad-nic-rolled-back", Devices: []DeviceSpec{nic(reboot, readBack, LinkDown)}},
		{Name: "bad-disk-rolled-back", Devices: []DeviceSpec{{
			ID: "disk0", Class: inventory.Disk, Activation: inventory.ActivateNone, Rollback: slot, Defect: LinkDown,
		}}},
		{Name: "bad-nic-no-way-back", Devices: []DeviceSpec{nic(reset, none, LinkDown)}},
		{Name: "three-devices-one-bad", Devices: []DeviceSpec{bios, nic(reset, readBack, LinkDown), disk}},
	}
}

// Named finds scenarios by their names; "all" is all of them and "none" none.
func Named(names []string) ([]Scenario, error) {
	out := []Scenario{}
	for _, name := range names {
		switch name {
		case "none":
		case "all":
			out = append(out, Scenarios()...)
		default:
			s, err := scenario(name)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// scenario finds one by its name.
func scenario(name string) (Scenario, error) {
	var names []string
	for _, s := range Scenarios() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Scenario{}, fmt.Errorf("unknown scenario %q; choose among %s", name, strings.Join(names, ", "))
}

// randomScenario is the scenario with the given seed.
func randomScenario(seed uint64) Scenario {
	r := rand.New(rand.NewPCG(seed, 0x7363656e))
	one := func(oneIn int) bool { return r.IntN(oneIn) == 0 }
	s := Scenario{Name: fmt.Sprintf("random-%d", seed), RollbackRequired: one(8)}
	for i := range 1 + r.IntN(3) {
		class := []inventory.Class{inventory.BIOS, inventory.NIC, inventory.Disk}[r.IntN(3)]
		d := DeviceSpec{
			ID: fmt.Sprintf("dev%d", i), Class: class, Rollback: inventory.Rollback(r.IntN(4)),
			Activation: []inventory.Activation{inventory.ActivateNone, inventory.ActivateDeviceReset, inventory.ActivateReboot}[r.IntN(3)],
			Quiet:      one(5), NeedsMore: one(10), Unsafe: one(3), Refuses: one(15), Staged: one(15),
		}
		switch r.IntN(6) {
		case 0, 1:
			d.Defect = LinkDown
		case 2:
			d.Defect = DeviceMute
		}
		s.Devices = append(s.Devices, d)
	}
	return s
}
