package steps_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/steps"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// bench is a machine whose devices are those of a simulated driver.
type bench struct {
	*testing.T
	sim     *drivertest.Simulated
	drv     driver.Driver // reads the devices; sim unless a test has another
	ids     []inventory.Identity
	scanErr error
	applied map[string]*journal.Applied
	tasks   steps.Tasks
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, sim: drivertest.NewSimulated("sim"), applied: map[string]*journal.Applied{}}
	b.drv = b.sim
	b.tasks = steps.Tasks{
		Machine: b, Drivers: driver.Set{b.sim}, Root: t.TempDir(), Scratch: filepath.Join(t.TempDir(), "scratch"),
		Applied: func(id string) (*journal.Applied, error) { return b.applied[id], nil },
	}
	return b
}

func (b *bench) add(id inventory.Identity, fw inventory.Firmware) {
	b.ids = append(b.ids, id)
	b.sim.Add(id, fw)
}

func (b *bench) Scan(ctx context.Context) ([]inventory.Device, error) {
	var out []inventory.Device
	for _, id := range b.ids {
		d := inventory.Device{Identity: id, Driver: b.drv.Name()}
		read, fw, err := b.drv.Inspect(ctx, id)
		if d.Err = err; err == nil {
			d.Identity, d.Firmware = read, &fw
		}
		out = append(out, d)
	}
	return out, b.scanErr
}

func (b *bench) Find(ctx context.Context, class inventory.Class, uniqueID string) (device inventory.Device, found bool, err error) {
	devices, err := b.Scan(ctx)
	for _, d := range devices {
		if d.Class == class && d.UniqueID == uniqueID {
			return d, true, nil
		}
	}
	return inventory.Device{}, false, err
}

func (b *bench) run(kind plan.Kind, request journal.RequestedStep, device journal.Update) *step.Returned {
	s := step.Step{Step: plan.Step{Kind: kind, Device: device.Device}}
	ret, underway := b.tasks.Run(b.Context(), s, request, device)
	assert.Nil(b, underway)
	return ret
}

func (b *bench) fails(ret *step.Returned, message string) {
	b.Helper()
	require.NotNil(b, ret)
	if assert.NotNil(b, ret.Failure, ret.Message) {
		assert.Equal(b, step.StepFailed, ret.Failure.Reason)
		assert.Contains(b, ret.Failure.Message, message)
	}
}

func (b *bench) succeeds(ret *step.Returned, message string) {
	b.Helper()
	require.NotNil(b, ret)
	require.Nil(b, ret.Failure)
	assert.Contains(b, ret.Message, message)
}

func update(id inventory.Identity, version string) journal.Update {
	return journal.Update{Class: id.Class, Device: id.UniqueID, UniqueID: id.UniqueID, Version: version}
}

var (
	nic0 = inventory.Identity{
		Class: inventory.NIC, UniqueID: "nic0", Vendor: "Mellanox", VendorID: "15b3", DeviceID: "101d", Model: "ConnectX-6 Dx", BoardID: "B",
	}
	nic1 = inventory.Identity{
		Class: inventory.NIC, UniqueID: "nic1", Vendor: "Mellanox", VendorID: "15b3", DeviceID: "1021", Model: "ConnectX-7", BoardID: "B",
	}
	disk = inventory.Identity{Class: inventory.Disk, UniqueID: "disk0", Vendor: "Samsung", VendorID: "144d", DeviceID: "a824", Model: "PM9A3", BoardID: "B"}
)

// R003-5: the hardware matches the expected devices, selected as in a template, and every difference is reported.
func TestVerifyInventoryDifferences(t *testing.T) {
	b := newBench(t)
	for _, id := range []inventory.Identity{nic0, nic1, disk} {
		b.add(id, inventory.Firmware{Running: "1.0"})
	}
	expect := func(e ...journal.Expectation) *step.Returned {
		return b.run(plan.VerifyInventory, journal.RequestedStep{Expected: e}, journal.Update{})
	}
	kind := func(class inventory.Class, vendor, model string, count int) journal.Expectation {
		s := journal.Selector{Class: class, Vendor: vendor}
		if model != "" {
			s.Models = []string{model}
		}
		return journal.Expectation{Selector: s, Count: count}
	}
	b.succeeds(expect(
		kind(inventory.NIC, "15B3", "", 2), kind(inventory.NIC, "mellanox", "connectx-7", 1), kind(inventory.NIC, "", "101d", 1),
		kind(inventory.Disk, "", "", 1), kind(inventory.BIOS, "", "", 0)), "3 devices")
	ret := expect(kind(inventory.NIC, "15b3", "", 3), kind(inventory.Disk, "", "PM9A3", 1), kind(inventory.Disk, "Micron", "", 1),
		kind(inventory.NIC, "", "1021", 0))
	b.fails(ret, "")
	assert.Equal(t, "NIC 15b3: 3 expected, 2 found (nic0, nic1); Disk Micron: 1 expected, 0 found; NIC 1021: 0 expected, 1 found (nic1)", ret.Failure.Message)

	b.sim.Inject("disk0", drivertest.Unreadable)
	b.succeeds(expect(kind(inventory.Disk, "Samsung", "PM9A3", 1)), "3 devices") // what sysfs says of it is enough
	b.ids[2].Model = ""                                                          // and without it, it may be any
	b.fails(expect(kind(inventory.Disk, "Samsung", "PM9A3", 0)), "some that may match cannot be read")
	b.succeeds(expect(kind(inventory.Disk, "Micron", "7450", 0)), "3 devices")

	b.fails(b.run(plan.VerifyInventory, journal.RequestedStep{}, journal.Update{}), "the device does not answer")
	b.sim.Clear("disk0")
	b.succeeds(b.run(plan.VerifyInventory, journal.RequestedStep{}, journal.Update{}), "no expected devices are given")
	b.scanErr = errors.New("list devices of class NIC: EIO")
	b.fails(expect(kind(inventory.Disk, "", "", 1)), "it is not known whether a device is missing: list devices of class NIC: EIO")
}

// R003-5: version, and integrity where the image can be read out of the device.
func TestVerifyFirmware(t *testing.T) {
	b := newBench(t)
	b.add(nic0, inventory.Firmware{Running: "1.0", Rollback: inventory.RollbackReadBack, Activation: inventory.ActivateReboot})
	b.add(disk, inventory.Firmware{Running: "1.0"})
	named := journal.RequestedStep{Name: "verify-firmware", Device: "any"}
	verify := func(r journal.RequestedStep, id inventory.Identity, version string) *step.Returned {
		return b.run(plan.VerifyFirmware, r, update(id, version))
	}
	b.succeeds(verify(named, nic0, "1.0"), "the device runs 1.0, which is the desired version; its image was read back and is valid")
	assert.Equal(t, 1, b.sim.Archives("nic0"))
	require.NoError(t, os.MkdirAll(filepath.Join(b.tasks.Scratch, "verify-firmware"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(b.tasks.Scratch, "verify-firmware/image"), nil, 0o600))
	b.succeeds(verify(named, nic0, "1.0"), "is valid") // what a crash left behind is in nobody's way
	left, err := os.ReadDir(b.tasks.Scratch)
	require.NoError(t, err)
	assert.Empty(t, left, "the image is not kept")
	b.succeeds(verify(named, disk, "1.0"), "its image cannot be read back, so only the version it reports was compared")

	b.fails(verify(named, nic0, "2.0"), "the device runs 1.0 instead of 2.0, which is the desired version")
	b.applied["disk0"] = &journal.Applied{Version: "0.9", Job: "j7"}
	b.fails(verify(named, disk, ""), "the device runs 1.0 instead of 0.9, which job j7 installed")
	b.applied["disk0"].Version = "1.0"
	b.succeeds(verify(named, disk, ""), "which job j7 installed")
	b.fails(verify(named, nic0, ""), "nothing says which version nic0 should run")
	b.succeeds(verify(journal.RequestedStep{Name: "verify-firmware"}, nic0, ""), "and no desired version is known")

	b.sim.SetFirmware("nic0", inventory.Firmware{Running: "1.0", Stored: "6.6.6", Rollback: inventory.RollbackReadBack, Activation: inventory.ActivateReboot})
	b.fails(verify(named, nic0, "1.0"), "the device runs 1.0 but stores 6.6.6, which would run after its next activation")
	b.sim.SetFirmware("nic0", inventory.Firmware{Running: "1.0", Rollback: inventory.RollbackReadBack})
	b.sim.Inject("nic0", drivertest.WrongBoard)
	b.fails(verify(named, nic0, "1.0"), "the image read from the device is not valid")
	b.sim.Clear("nic0")
	b.sim.Inject("nic0", drivertest.FailArchive)
	b.fails(verify(named, nic0, "1.0"), "read the image from the device: ")
	b.sim.Inject("nic0", drivertest.Unreadable)
	b.fails(verify(named, nic0, "1.0"), "the device does not answer")
	b.fails(verify(named, inventory.Identity{Class: inventory.NIC, UniqueID: "nic9"}, "1.0"), "no device with the unique id nic9 is on this node")
}

// scrub is a step of the simulated driver.
func scrub(change func(*drivertest.Step)) drivertest.Step {
	s := drivertest.Step{Step: driver.Step{Name: "scrub", Changes: true}}
	if change != nil {
		change(&s)
	}
	return s
}

// R003-6, R003-55: a step of a driver runs with what it kept.
func TestStepOfADriver(t *testing.T) {
	b := newBench(t)
	b.add(disk, inventory.Firmware{Running: "1.0"})
	run := func(data []byte) *step.Returned {
		s := step.Step{Step: plan.Step{Kind: "scrub", Device: "disk0"}, Data: data}
		ret, _ := b.tasks.Run(t.Context(), s, journal.RequestedStep{}, update(disk, ""))
		return ret
	}
	b.fails(run(nil), "the driver of the device does not know the step scrub")
	b.sim.Offer(scrub(func(s *drivertest.Step) { s.Calls, s.Reboot = 2, true }))
	first := run(nil)
	b.succeeds(first, "1 of 2 done")
	assert.True(t, first.Again)
	last := run(first.Data)
	b.succeeds(last, "2 of 2 done")
	assert.False(t, last.Again)
	assert.True(t, last.Reboot)

	for message, change := range map[string]func(*drivertest.Step){
		"the drive refused": func(s *drivertest.Step) { s.Err = errors.New("the drive refused") },
		"the driver returned 4097 bytes of data for the step, the limit is 4096": func(s *drivertest.Step) { s.Padding = 4096 },
		"the driver panicked: nil map; report this":                              func(s *drivertest.Step) { s.Panic = "nil map" },
	} {
		b.sim.Offer(scrub(change))
		b.fails(run(nil), message)
	}
	b.sim.Offer(scrub(func(s *drivertest.Step) { s.Padding = 4095 }))
	b.succeeds(run(nil), "1 of 1 done")
	b.sim.Offer(scrub(func(s *drivertest.Step) {
		s.Err = &command.Error{Argv: []string{"scrub"}, Err: command.ErrStillRunning}
	}))
	assert.Nil(t, run(nil), "a write that goes on is neither done nor failed")
	b.sim.Remove("disk0")
	b.fails(run(nil), "it is not there")
}

// TestCatalogOfDrivers proves R003-12, R003-35.
func TestCatalogOfDrivers(t *testing.T) {
	sim := drivertest.NewSimulated("sim")
	c, err := steps.NewCatalog(driver.Set{sim}, nil)
	require.NoError(t, err, "a driver without steps is fine (R003-41)")
	assert.Len(t, c.Enabled(), 25)
	sim.Offer(drivertest.Step{Step: driver.Step{Name: "scrub", Changes: true, Deadline: time.Hour}})
	c, err = steps.NewCatalog(driver.Set{sim}, map[string]int32{"sim.scrub": 850, "node.verify-inventory": 990})
	require.NoError(t, err)
	enabled := steps.Enabled(c)
	require.Len(t, enabled, 27)
	assert.Equal(t, v1alpha1.EnabledStep{Name: "preflight", Interface: "node", Priority: 1000}, enabled[0])
	assert.Equal(t, "verify-inventory", enabled[1].Name)
	assert.Contains(t, enabled, v1alpha1.EnabledStep{Name: "scrub", Interface: "sim", Priority: 850})
	_, err = steps.NewCatalog(driver.Set{sim}, map[string]int32{"sim.flsh": 1})
	require.ErrorContains(t, err, "load steps: priority of sim.flsh: there is no such step")
	for _, name := range []string{"nic", "storagecontroller"} {
		sim := drivertest.NewSimulated(name)
		_, err = steps.NewCatalog(driver.Set{sim}, nil)
		require.NoError(t, err, "only steps need a name of their own")
		sim.Offer(scrub(nil))
		_, err = steps.NewCatalog(driver.Set{sim}, nil)
		require.ErrorContains(t, err, "driver "+name+" has the name of another interface")
	}
}
