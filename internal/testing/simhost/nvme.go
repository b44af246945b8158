package simhost

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// nvmeState is what an NVMe drive holds over a power cut, and what the kernel shows of it.
type nvmeState struct {
	nvmectrl.Firmware
	Sanitize nvmectrl.Sanitize
	// SysfsVersion is the revision the kernel read when it probed the drive.
	SysfsVersion string
}

func newNVMe(n NVMe) *nvmeState {
	slots := make([]nvmectrl.Slot, n.Slots)
	slots[0] = nvmectrl.Slot{
		Revision: n.Version, Digest: digest(BuildImage(NVMeImage, ImageOptions{Version: n.Version, Model: n.Model})),
	}
	return &nvmeState{Firmware: nvmectrl.NewFirmware(slots...), SysfsVersion: n.Version}
}

var nvmeActivations = map[Activation]nvmectrl.Activation{
	DeviceReset: nvmectrl.AtControllerReset, Reboot: nvmectrl.AtConventionalReset, PowerCycle: nvmectrl.AtPowerCycle,
}

// profile is what the drive's controller is.
func (n NVMe) profile() nvmectrl.Profile {
	return nvmectrl.Profile{
		VendorID: hex16(n.VendorID), Model: n.Model, Serial: n.Serial, FirstSlotReadOnly: n.Slot1ReadOnly, HidesNext: n.HidesNext,
		Activation: nvmeActivations[n.Activation], MTFA: 130 * nvmectrl.MTFAUnit, FWUG: 1, AnyLength: true, MDTS: 9,
		RestartsAtZero: true, Accept: n.accept, Sanitizes: n.Sanitizes, SanitizeSteps: n.SanitizeSteps,
	}
}

// accept judges an image at its commit.
func (n NVMe) accept(image []byte) (nvmectrl.Slot, error) {
	img, err := ParseImage(image)
	if err == nil && (img.Kind != NVMeImage || img.Model != n.Model) {
		err = fmt.Errorf("the image is for %s %q", img.Kind, img.Model)
	}
	return nvmectrl.Slot{Revision: img.Version, Digest: digest(image)}, err
}

// nvmeBuffer is where a drive keeps what was downloaded and not committed.
func (m *Machine) nvmeBuffer(key string) string { return m.path("devices", key+".download") }

// nvmeController is the drive's controller. It shares the firmware's slots with the state.
func (m *Machine) nvmeController(s *state, n NVMe) (nvmectrl.Controller, error) {
	c := nvmectrl.Controller{Profile: n.profile(), Firmware: s.NVMe[n.Key].Firmware, Sanitize: s.NVMe[n.Key].Sanitize}
	data, err := os.ReadFile(m.nvmeBuffer(n.Key))
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &c.Buffer)
	}
	if err != nil {
		return c, fmt.Errorf("read buffer of %s: %w", n.Key, err)
	}
	return c, nil
}

// keepNVMeBuffer keeps what was downloaded to a drive.
func (m *Machine) keepNVMeBuffer(key string, b nvmectrl.Buffer) error {
	if len(b.Pieces) == 0 {
		if err := os.Remove(m.nvmeBuffer(key)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	data, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("keep buffer of %s: %w", key, err)
	}
	return m.replace(m.nvmeBuffer(key), data, 0o600)
}

// changeNVMe changes a drive's controller in the state and in the file of its buffer.
func (m *Machine) changeNVMe(s *state, n NVMe, change func(*nvmectrl.Controller)) error {
	c, err := m.nvmeController(s, n)
	if err != nil {
		return err
	}
	pieces, stale := len(c.Buffer.Pieces), c.Buffer.Stale
	change(&c)
	s.NVMe[n.Key].Firmware, s.NVMe[n.Key].Sanitize = c.Firmware, c.Sanitize
	if len(c.Buffer.Pieces) == pieces && c.Buffer.Stale == stale {
		return nil
	}
	return m.keepNVMeBuffer(n.Key, c.Buffer)
}

// nvmeTarget is the drive of one run of a tool, as it was when the run began.
type nvmeTarget struct {
	NVMe
	machine    *Machine
	spec       Spec
	controller nvmectrl.Controller
	// err collects the errors of changes.
	err error
}

func (m *Machine) nvmeTarget(n NVMe) (*nvmeTarget, error) {
	s, err := m.view()
	if err != nil {
		return nil, err
	}
	c, err := m.nvmeController(s, n)
	return &nvmeTarget{NVMe: n, machine: m, spec: s.Spec, controller: c}, err
}

// change makes a step of a job that changes the controller.
func (t *nvmeTarget) change(change func(*nvmectrl.Controller)) func(*state) {
	return func(s *state) { t.err = errors.Join(t.err, t.machine.changeNVMe(s, t.NVMe, change)) }
}

func (m *Machine) bootNVMe(s *state, n NVMe, b boot) error {
	kind := nvmectrl.ConventionalReset
	if b.kind == PowerCycle {
		kind = nvmectrl.PowerCycle
	}
	return m.changeNVMe(s, n, func(c *nvmectrl.Controller) {
		if b.refuse {
			c.Next = 0
		}
		c.Reset(kind)
		s.NVMe[n.Key].SysfsVersion = c.Running.Revision
	})
}

func (d *nvmeState) describe(out *Device) {
	out.Running, out.RunningDigest = d.Running.Revision, d.Running.Digest
	stored := d.Stored()
	out.Stored, out.StoredDigest = stored.Revision, stored.Digest
	out.ActiveSlot = d.Active
	for _, s := range d.Slots {
		out.Slots = append(out.Slots, s.Revision)
		out.Torn = out.Torn || s.Torn
	}
}
