package drivertest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Simulated is a driver whose devices live in memory. It accepts the images that NewImage creates. It is safe for
// concurrent use, and outlives the code under test as hardware does.
type Simulated struct {
	name string

	mu         sync.Mutex
	version    string
	devices    []*device
	operations []Operation
	steps      []Step
	tool       Tool
}

// Tool carries out a change of a device, in place of a tool that does so at once. What it returns is the result of the tool.
type Tool func(ctx context.Context, c Change) error

// Change is an operation that a tool carries out.
type Change struct {
	Operation
	// Version is what the device is to run, and Digest that of its image.
	Version inventory.Version
	Digest  inventory.Digest
	// Settings are those that the device is told.
	Settings []inventory.Setting
	// Progress is told how far a write is; nil for nobody.
	Progress driver.Progress
	// Apply makes the device take it.
	Apply func()
}

// Operation is one change of a device, or of the machine when UniqueID is empty.
type Operation struct {
	Kind     OperationKind
	UniqueID string
}

// OperationKind says what an operation does.
type OperationKind string

// The kinds of operations. Each is recorded when it reaches the device, whatever its result. Reading an image from a
// device is not an operation: Archives counts that.
const (
	OpWrite      OperationKind = "Write"
	OpRevert     OperationKind = "Revert"
	OpConfigure  OperationKind = "Configure"
	OpActivate   OperationKind = "Activate"
	OpReboot     OperationKind = "Reboot"
	OpPowerCycle OperationKind = "PowerCycle"
)

var (
	_ driver.Driver     = (*Simulated)(nil)
	_ driver.Archiver   = (*Simulated)(nil)
	_ driver.Reverter   = (*Simulated)(nil)
	_ driver.Configurer = (*Simulated)(nil)
)

// NewSimulated returns a driver of that name without devices.
func NewSimulated(name string) *Simulated { return &Simulated{name: name, version: "1"} }

// Add plugs a device in. Running is required. Stored defaults to Running, Activation to none: the image runs as soon as
// it is written. A device whose rollback is Slot gets two slots if it has none. The identity must have a UniqueID and,
// to take images, a BoardID.
func (s *Simulated) Add(id inventory.Identity, fw inventory.Firmware) {
	if fw.Stored == "" {
		fw.Stored = fw.Running
	}
	if fw.Rollback == inventory.RollbackSlot && len(fw.Slots) == 0 {
		fw.Slots = []inventory.Slot{
			{Number: 1, Version: fw.Running, State: inventory.SlotActive}, {Number: 2, State: inventory.SlotIdle},
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.devices = append(s.devices, &device{id: id, firmware: fw, faults: map[Fault]bool{}, inSlot: map[int]Defect{}, left: map[int]int{}})
}

// RunBy has the changes of devices carried out by a tool of the caller.
func (s *Simulated) RunBy(t Tool) { s.tool = t }

// Stage makes the device hold firmware that waits for its activation, as somebody with a vendor's tool may have left it.
func (s *Simulated) Stage(uniqueID string, v inventory.Version, defect Defect) {
	s.change(uniqueID, func(d *device) { d.stage(content{d.id.BoardID, v, defect}) })
}

// Tear leaves in the device what a write leaves that is broken off.
func (s *Simulated) Tear(uniqueID string) {
	s.change(uniqueID, func(d *device) { d.store(content{d.id.BoardID, TornVersion, DefectTorn}) })
}

// Waste overwrites the slots of the device that do not run with what it stores, as a driver would that takes the wrong ones.
func (s *Simulated) Waste(uniqueID string) {
	s.change(uniqueID, func(d *device) {
		for i := range d.firmware.Slots {
			if slot := &d.firmware.Slots[i]; slot.State == inventory.SlotIdle {
				slot.Version, d.inSlot[slot.Number] = d.firmware.Stored, d.stored
			}
		}
	})
}

// Loses reports whether a write now would overwrite the only slot that holds the version.
func (s *Simulated) Loses(uniqueID string, v inventory.Version) bool {
	loses := false
	s.change(uniqueID, func(d *device) {
		to := d.target()
		loses = len(d.firmware.Slots) == 1 || d.firmware.Running != v && to != nil && to.Version == v
	})
	return loses
}

// Running is the firmware that runs, as an image, and its defect.
func (s *Simulated) Running(uniqueID string) (image []byte, defect Defect) {
	s.change(uniqueID, func(d *device) { image, defect = d.image(), d.running })
	return image, defect
}

// Remove unplugs a device: Inspect and everything else fail from now on.
func (s *Simulated) Remove(uniqueID string) { s.change(uniqueID, func(d *device) { d.gone = true }) }

// Inject gives the device a fault.
func (s *Simulated) Inject(uniqueID string, f Fault) {
	s.change(uniqueID, func(d *device) { d.faults[f] = true })
}

// FailWrite gives the device the fault FailWrite with the text that its tool prints.
func (s *Simulated) FailWrite(uniqueID, stderr string) {
	s.change(uniqueID, func(d *device) { d.faults[FailWrite], d.failure = true, stderr })
}

// Cure removes one fault of the device.
func (s *Simulated) Cure(uniqueID string, f Fault) {
	s.change(uniqueID, func(d *device) { delete(d.faults, f) })
}

// Clear removes all faults of the device. A hanging write keeps hanging until Release.
func (s *Simulated) Clear(uniqueID string) {
	s.change(uniqueID, func(d *device) { clear(d.faults) })
}

// Release clears HangWrite and lets a hanging write of the device end normally.
func (s *Simulated) Release(uniqueID string) {
	s.change(uniqueID, func(d *device) {
		delete(d.faults, HangWrite)
		if d.release != nil {
			close(d.release)
			d.release = nil
		}
	})
}

// Busy reports whether a write runs on the device.
func (s *Simulated) Busy(uniqueID string) bool {
	busy := false
	s.change(uniqueID, func(d *device) { busy = d.busy })
	return busy
}

// SetFirmware changes what a device runs and stores, as somebody with a vendor's tool would. The new firmware has no
// defect.
func (s *Simulated) SetFirmware(uniqueID string, fw inventory.Firmware) {
	s.change(uniqueID, func(d *device) {
		d.firmware = fw
		d.firmware = d.read()
		d.running, d.stored, d.inSlot = "", "", map[int]Defect{}
	})
}

// Firmware is what the device really runs and stores, whatever its faults.
func (s *Simulated) Firmware(uniqueID string) inventory.Firmware {
	var fw inventory.Firmware
	s.change(uniqueID, func(d *device) { fw = d.read() })
	return fw
}

// Reboot restarts the machine: stored images that need no power-cycle run afterwards.
func (s *Simulated) Reboot() { s.boot(OpReboot, inventory.ActivateReboot) }

// PowerCycle switches the machine off and on: all stored images run afterwards.
func (s *Simulated) PowerCycle() { s.boot(OpPowerCycle, inventory.ActivatePowerCycle) }

func (s *Simulated) boot(kind OperationKind, upTo inventory.Activation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.operations = append(s.operations, Operation{Kind: kind})
	for _, d := range s.devices {
		d.boot(upTo)
		switch {
		case !d.firmware.Pending() || d.firmware.Activation > upTo, d.faults[NeedPower] && upTo < inventory.ActivatePowerCycle:
		case d.faults[TwoBoots] && kind == OpReboot:
			delete(d.faults, TwoBoots)
		case d.faults[RefuseBoot]:
			d.firmware.LastAttempt = fmt.Sprintf("the device refused %s at boot", d.firmware.Stored)
			d.drop()
		default:
			d.firmware.LastAttempt = ""
			d.run()
		}
	}
}

// Operations lists the operations so far, in order.
func (s *Simulated) Operations() []Operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.operations)
}

// Count is the number of operations of the kind on the device, or on the machine when uniqueID is empty.
func (s *Simulated) Count(kind OperationKind, uniqueID string) int {
	n := 0
	for _, op := range s.Operations() {
		if op == (Operation{Kind: kind, UniqueID: uniqueID}) {
			n++
		}
	}
	return n
}

// Name is the name given to NewSimulated.
func (s *Simulated) Name() string { return s.name }

// Version is "1" until SetVersion.
func (s *Simulated) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// SetVersion changes the driver's version.
func (s *Simulated) SetVersion(v string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = v
}

// Support is SupportVendor for devices that were added, by unique id or else PCI address or node, and SupportNone for
// others.
func (s *Simulated) Support(id inventory.Identity) driver.Support {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.find(id) == nil {
		return driver.SupportNone
	}
	return driver.SupportVendor
}

// Inspect returns the device's state.
func (s *Simulated) Inspect(_ context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.open(id)
	if err != nil {
		return id, inventory.Firmware{}, err
	}
	if d.faults[Unreadable] {
		return id, inventory.Firmware{}, toolError("query", d, errSilent)
	}
	fw := d.read()
	if d.faults[Quiet] {
		fw.Stored = ""
	}
	return d.id, fw, nil
}

// Check verifies the image against the device.
func (s *Simulated) Check(_ context.Context, id inventory.Identity, img driver.Image) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.open(id)
	if err != nil {
		return err
	}
	if err := img.Verify(); err != nil {
		return err
	}
	_, err = d.accepts(img)
	return err
}

// Write stores the image in the device.
func (s *Simulated) Write(ctx context.Context, id inventory.Identity, img driver.Image, progress driver.Progress) (inventory.Activation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.open(id)
	if err != nil {
		return 0, err
	}
	content, err := d.accepts(img)
	if err != nil {
		return 0, err
	}
	switch {
	case d.busy || d.faults[BusyWrite]:
		return 0, toolError("write", d, command.ErrBusy)
	case d.firmware.Stored == img.Version && !d.faults[Quiet]:
		return d.needs(), nil
	}
	s.operations = append(s.operations, Operation{OpWrite, d.id.UniqueID})
	switch {
	case d.faults[FailWrite]:
		return 0, toolError("write", d, errors.New(cmp.Or(d.failure, "the device refused the image")))
	case d.faults[LieWrite]:
		return d.firmware.Activation, nil
	case d.faults[HangWrite]:
		if err := s.hang(ctx, d, "write", func() { d.store(content) }); err != nil {
			return 0, err
		}
	default:
		err := s.carryOut(ctx, Change{
			Operation: Operation{OpWrite, d.id.UniqueID}, Version: content.version, Digest: sha256.Sum256(imageBytes(content)), Progress: progress,
			Apply: func() { d.store(content) },
		})
		if err != nil {
			return 0, err
		}
	}
	if progress != nil {
		progress(100)
	}
	return d.written(), nil
}

// carryOut has a change carried out. The caller holds the lock, which is released while a tool works.
func (s *Simulated) carryOut(ctx context.Context, c Change) error {
	apply := c.Apply
	if s.tool == nil {
		apply()
		return nil
	}
	c.Apply = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		apply()
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	return s.tool(ctx, c)
}

// hang ends the write when it is released, whether or not a caller still waits for it. The caller holds the lock, which
// is released meanwhile.
func (s *Simulated) hang(ctx context.Context, d *device, verb string, end func()) error {
	released, done := make(chan struct{}), make(chan struct{})
	d.busy, d.release = true, released
	go func() {
		defer close(done)
		<-released
		s.mu.Lock()
		defer s.mu.Unlock()
		d.busy = false
		end()
	}()
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return toolError(verb, d, command.ErrStillRunning)
	}
}

// Activate makes the stored version run when the device's kind of activation is the given one or a less disruptive one.
func (s *Simulated) Activate(ctx context.Context, id inventory.Identity, kind inventory.Activation) (inventory.Activation, error) {
	if kind != inventory.ActivateDeviceReset && kind != inventory.ActivateDriverReload {
		return 0, fmt.Errorf("activate by %s: %w", kind, driver.ErrNotSupported)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.open(id)
	if err != nil {
		return 0, err
	}
	s.operations = append(s.operations, Operation{OpActivate, d.id.UniqueID})
	switch {
	case d.faults[FailActivate]:
		return 0, toolError("reset", d, errors.New("the device did not come back"))
	case d.faults[LieActivate]:
		return inventory.ActivateNone, nil
	case d.faults[NeedReboot] && d.firmware.Pending():
		return inventory.ActivateReboot, nil
	case d.firmware.Activation > kind:
		d.enforce(kind)
		return max(d.needs(), d.waits()), nil
	}
	err = s.carryOut(ctx, Change{Operation: Operation{OpActivate, d.id.UniqueID}, Version: d.firmware.Stored, Apply: func() {
		d.run()
		d.enforce(kind)
	}})
	return d.waits(), err
}

func (s *Simulated) change(uniqueID string, f func(*device)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.mustFind(uniqueID))
}

func (s *Simulated) mustFind(uniqueID string) *device {
	d := s.find(inventory.Identity{UniqueID: uniqueID})
	if d == nil {
		panic("drivertest: no device " + uniqueID)
	}
	return d
}

func (s *Simulated) open(id inventory.Identity) (*device, error) {
	d := s.find(id)
	if d == nil || d.gone {
		return nil, fmt.Errorf("open device %s: it is not there", id.UniqueID)
	}
	if d.running == DefectUnreadable || d.running == DefectTorn {
		return nil, toolError("query", d, errSilent)
	}
	return d, nil
}

func (s *Simulated) find(id inventory.Identity) *device {
	for _, d := range s.devices {
		switch {
		case id.UniqueID != "" && id.UniqueID == d.id.UniqueID,
			id.UniqueID == "" && len(id.PCI) > 0 && slices.Equal(id.PCI, d.id.PCI),
			id.UniqueID == "" && id.Node != "" && id.Node == d.id.Node:
			return d
		}
	}
	return nil
}

func toolError(verb string, d *device, cause error) error {
	c := command.Command{Argv: []string{"simulated-tool", verb, d.id.UniqueID}}
	if errors.Is(cause, command.ErrBusy) || errors.Is(cause, command.ErrStillRunning) {
		return &command.Error{Argv: c.Argv, ExitCode: -1, Err: cause}
	}
	return command.Failed(c, command.Result{ExitCode: 1, Stderr: []byte(cause.Error())}, errors.New("tool failed"))
}
