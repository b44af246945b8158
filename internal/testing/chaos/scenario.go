package chaos

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Scenario is a host and the job it is given.
type Scenario struct {
	Name    string
	Devices []DeviceSpec
	// RollbackRequired refuses devices whose firmware could not be restored.
	RollbackRequired bool
	// Scrub makes the job one of type Steps that scrubs the devices, and Sanitize one that has those drives erase themselves for which a person
	// consented.
	Scrub, Sanitize bool
}

// DeviceSpec is one device of a scenario.
type DeviceSpec struct {
	ID         string
	Class      inventory.Class
	Activation inventory.Activation
	Rollback   inventory.Rollback
	// Defect of the new firmware, which shows only once it runs.
	Defect drivertest.Defect
	// Quiet devices do not report what they store.
	Quiet bool
	// NeedsMore makes the device ask for a reboot instead of its reset.
	NeedsMore bool
	// Unsafe devices have one copy of their firmware: a torn write leaves garbage and never the old image.
	Unsafe bool
	// Refuses the new firmware at boot and says why.
	Refuses bool
	// TwoBoots makes the device run its new firmware only after a second boot.
	TwoBoots bool
	// Uplink is the only NIC that leads to the API server.
	Uplink bool
	// Slots is how many slots for images the device has, of those that are rolled back by a slot; zero for as many as needed.
	// A write goes into a slot that does not run, where there is one.
	Slots int
	// Staged devices hold the new firmware when the job begins.
	Staged bool
	// Setting is told to the device by the job, with its firmware or, where it is SettingOnly, alone. Resets makes the device forget it when it
	// begins to run other firmware, and Unplugs takes its links down.
	Setting, SettingOnly, Resets, Unplugs bool
	// Set is the array, pool or other set of drives that the drive is a member of, beside drives that no job has; empty for none.
	Set string
	// Carries is the directory of the node that is on the drive; empty for none.
	Carries string
	// Stores makes it a drive that stores data and can erase itself, and Consented one of those that the job is to erase. LiesErased says that it
	// erased all and did nothing, and FailsErase says that it failed.
	Stores, Consented, LiesErased, FailsErase bool
}

// Scenarios are the scenarios of the boundary campaign, which injects every possible fault at every boundary.
func Scenarios() []Scenario {
	const (
		reset, reboot  = inventory.ActivateDeviceReset, inventory.ActivateReboot
		readBack, slot = inventory.RollbackReadBack, inventory.RollbackSlot
		image, none    = inventory.RollbackImage, inventory.RollbackNone
		sound, down    = drivertest.DefectNone, drivertest.DefectLinkDown
	)
	nic := func(a inventory.Activation, r inventory.Rollback, d drivertest.Defect) DeviceSpec {
		return DeviceSpec{ID: "nic0", Class: inventory.NIC, Activation: a, Rollback: r, Defect: d}
	}
	disk := DeviceSpec{ID: "disk0", Class: inventory.Disk, Activation: reset, Rollback: slot, Slots: 3}
	drive := func(id string, consented bool) DeviceSpec {
		return DeviceSpec{ID: id, Class: inventory.Disk, Activation: reboot, Rollback: slot, Slots: 3, Stores: true, Consented: consented}
	}
	lying := drive("disk0", true)
	lying.LiesErased = true
	bios := DeviceSpec{ID: "bios", Class: inventory.BIOS, Activation: reboot, Rollback: image, Unsafe: true}
	return []Scenario{
		{Name: "nic-reset", Devices: []DeviceSpec{nic(reset, readBack, sound)}},
		{Name: "nic-reboot", Devices: []DeviceSpec{nic(reboot, readBack, sound)}},
		{Name: "nic-two-boots", Devices: []DeviceSpec{{
			ID: "nic0", Class: inventory.NIC, Activation: reboot, Rollback: readBack, Quiet: true, TwoBoots: true,
		}}},
		{Name: "disk-slot", Devices: []DeviceSpec{disk}, RollbackRequired: true},
		{Name: "bios-image", Devices: []DeviceSpec{bios}},
		{Name: "bad-nic-rolled-back", Devices: []DeviceSpec{nic(reboot, readBack, down)}},
		{Name: "bad-disk-rolled-back", Devices: []DeviceSpec{{
			ID: "disk0", Class: inventory.Disk, Activation: inventory.ActivateNone, Rollback: slot, Defect: down, Slots: 2,
		}}},
		{Name: "one-slot", Devices: []DeviceSpec{{ID: "disk0", Class: inventory.Disk, Activation: reset, Rollback: slot, Slots: 1}}},
		{Name: "steps", Scrub: true, Devices: []DeviceSpec{disk}},
		{Name: "erase-drives", Sanitize: true, Devices: []DeviceSpec{drive("disk0", true), drive("disk1", true), drive("disk2", false)}},
		{Name: "erase-a-drive-that-lies", Sanitize: true, Devices: []DeviceSpec{lying, drive("disk1", true)}},
		{Name: "cut-off-by-its-nic", Devices: []DeviceSpec{{
			ID: "nic0", Class: inventory.NIC, Activation: reboot, Rollback: readBack, Defect: down, Uplink: true,
		}}},
		{Name: "cut-off-with-a-link", Devices: []DeviceSpec{bios, {
			ID: "nic0", Class: inventory.NIC, Activation: reset, Rollback: readBack, Defect: drivertest.DefectNoTraffic, Uplink: true,
		}}},
		{Name: "cut-off-no-way-back", Devices: []DeviceSpec{{
			ID: "nic0", Class: inventory.NIC, Activation: reboot, Rollback: none, Defect: down, Uplink: true,
		}}},
		{Name: "bad-nic-no-way-back", Devices: []DeviceSpec{nic(reset, none, down)}},
		{Name: "array-members", Devices: []DeviceSpec{
			{ID: "disk0", Class: inventory.Disk, Activation: reset, Rollback: slot, Slots: 3, Set: "md0", Defect: down},
			{ID: "disk1", Class: inventory.Disk, Activation: reset, Rollback: slot, Slots: 3, Set: "the ZFS pool rpool", Carries: "/"},
		}},
		{Name: "two-of-one-array", Devices: []DeviceSpec{
			{ID: "disk0", Class: inventory.Disk, Activation: reset, Rollback: slot, Set: "the LVM RAID of data"},
			{ID: "disk1", Class: inventory.Disk, Activation: reset, Rollback: slot, Set: "the LVM RAID of data"},
		}},
		{Name: "settings", Devices: []DeviceSpec{{
			ID: "nic0", Class: inventory.NIC, Activation: reboot, Rollback: readBack, Setting: true, Resets: true,
		}}},
		{Name: "settings-and-bad-firmware", Devices: []DeviceSpec{{
			ID: "nic0", Class: inventory.NIC, Activation: reset, Rollback: readBack, Setting: true, Resets: true, Defect: down,
		}}},
		{Name: "bad-setting-rolled-back", Devices: []DeviceSpec{{
			ID: "nic0", Class: inventory.NIC, Activation: reboot, Rollback: readBack, Setting: true, SettingOnly: true, Unplugs: true,
		}, disk}},
		{Name: "three-devices-one-bad", Devices: []DeviceSpec{bios, nic(reset, readBack, down), disk}},
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

// newest is the world that random scenarios are drawn for. Runs that were kept in an earlier one stay in it: the first one had
// neither slots that are overwritten, nor a NIC that leads to the API server, nor jobs of type Steps, the second one no arrays, the third one no settings, and the fourth one no
// drives that erase themselves.
const newest = 5

// randomScenario is the scenario with the given seed in a world.
func randomScenario(seed uint64, world int) Scenario {
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
			d.Defect = drivertest.DefectLinkDown
		case 2:
			d.Defect = drivertest.DefectUnreadable
		}
		s.Devices = append(s.Devices, d)
	}
	if world >= 2 {
		s.enlarge(rand.New(rand.NewPCG(seed, 0x776f726c64)))
	}
	if world >= 3 {
		s.connect(rand.New(rand.NewPCG(seed, 0x617272617973)))
	}
	if world >= 4 {
		s.configure(rand.New(rand.NewPCG(seed, 0x736574)))
	}
	if world >= 5 {
		s.store(rand.New(rand.NewPCG(seed, 0x6572617365)))
	}
	return s
}

// enlarge adds what the second world knows more than the first one.
func (s *Scenario) enlarge(r *rand.Rand) {
	s.Scrub = r.IntN(10) == 0
	uplink := r.IntN(2) == 0
	for i := range s.Devices {
		d := &s.Devices[i]
		d.Slots = r.IntN(4)
		if d.Class == inventory.NIC && uplink && !d.Staged { // what somebody else staged is not the job's to undo
			d.Uplink, uplink = true, false
			if d.Defect == drivertest.DefectLinkDown && r.IntN(2) == 0 {
				d.Defect = drivertest.DefectNoTraffic
			}
		}
	}
}

// sets are what drives of one machine may be members of together.
var sets = []string{
	"", "md0", "md1", "the LVM RAID of data", "the ZFS pool tank", "the btrfs file system 1b9d", "the multipath set mpatha", "",
}

// connect adds what the third world knows more than the second one.
func (s *Scenario) connect(r *rand.Rand) {
	for i := range s.Devices {
		if d := &s.Devices[i]; d.Class == inventory.Disk {
			d.Set = sets[r.IntN(len(sets))]
			d.Carries = []string{"", "", "", "/", "/var/lib/etcd"}[r.IntN(5)]
		}
	}
}

// configure adds what the fourth world knows more than the third one: settings that go with the firmware of a device, or alone.
func (s *Scenario) configure(r *rand.Rand) {
	for i := range s.Devices {
		d := &s.Devices[i]
		d.Setting = r.IntN(3) == 0
		d.SettingOnly = d.Setting && r.IntN(2) == 0 && !d.Staged // what somebody else staged runs after any boot
		d.Resets = d.Setting && r.IntN(3) == 0
		d.Unplugs = d.Setting && r.IntN(3) == 0
	}
}

// store adds what the fifth world knows more than the fourth one: jobs that have drives erase themselves.
func (s *Scenario) store(r *rand.Rand) {
	if r.IntN(10) != 0 {
		return
	}
	for i := range s.Devices {
		if d := &s.Devices[i]; d.Class == inventory.Disk {
			d.Stores, d.Consented = true, r.IntN(4) > 0
			d.LiesErased, d.FailsErase = r.IntN(4) == 0, r.IntN(4) == 0
			s.Sanitize = s.Sanitize || d.Consented
		}
	}
	s.Scrub = s.Scrub && !s.Sanitize
}
