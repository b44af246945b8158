package simhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Machine is a simulated machine. Its methods can be called by any number of processes at once.
type Machine struct{ dir string }

// Create makes a machine in a directory that is empty or does not exist, and powers it on. It has no tools yet: see
// InstallTools.
func Create(dir string, spec Spec) (*Machine, error) {
	if err := spec.validate(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("create machine: %w", err)
	}
	m := &Machine{dir: dir}
	if _, err := os.Stat(m.path("state.json")); err == nil {
		return nil, fmt.Errorf("create machine: %s holds one already", dir)
	}
	for _, d := range []string{m.path("tmp"), m.path("devices"), m.path("running"), filepath.Join(dir, "usr/bin")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("create machine: %w", err)
		}
	}
	s := &state{
		Spec: spec, BIOS: newBIOS(spec.BIOS), Absent: map[string]bool{},
		NICs: map[string]*nicState{}, NVMe: map[string]*nvmeState{}, SCSI: map[string]*scsiState{},
		SATA: map[string]*scsiState{},
	}
	for _, n := range spec.NICs {
		s.NICs[n.Key] = newNIC(n)
	}
	for _, n := range spec.NVMe {
		s.NVMe[n.Key] = newNVMe(n)
	}
	for _, d := range spec.SCSI {
		s.SCSI[d.Key] = newSCSI(d)
	}
	for _, d := range spec.SATA {
		s.SATA[d.Key] = newSATA(d)
	}
	if err := m.save(s, nil); err != nil {
		return nil, fmt.Errorf("create machine: %w", err)
	}
	for _, n := range spec.NVMe {
		if err := m.makeDisk(n.Key, n.Sectors); err != nil {
			return nil, fmt.Errorf("create machine: %w", err)
		}
	}
	for _, d := range spec.SCSI {
		if err := m.makeDisk(d.Key, d.Sectors); err != nil {
			return nil, fmt.Errorf("create machine: %w", err)
		}
	}
	return m, m.Boot()
}

// Open opens the machine of a directory.
func Open(dir string) (*Machine, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open machine: %w", err)
	}
	m := &Machine{dir: dir}
	if _, err := m.load(); err != nil {
		return nil, fmt.Errorf("open machine: %w", err)
	}
	return m, nil
}

// Dir is the root of the machine's files, the daemon's host root.
func (m *Machine) Dir() string { return m.dir }

// ToolPath is the directory of the tools.
func (m *Machine) ToolPath() string { return filepath.Join(m.dir, "usr/bin") }

// InstallTools links all tools to a binary that calls RunTool, such as firmware-simtools or a test's own executable.
func (m *Machine) InstallTools(binary string) error {
	for _, name := range Tools() {
		link := filepath.Join(m.ToolPath(), name)
		if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("install tool: %w", err)
		}
		if err := os.Symlink(binary, link); err != nil {
			return fmt.Errorf("install tool: %w", err)
		}
	}
	return nil
}

// Spec is the hardware as it is now.
func (m *Machine) Spec() (Spec, error) {
	s, err := m.view()
	if err != nil {
		return Spec{}, err
	}
	return s.Spec, nil
}

// BootID is the kernel's boot id.
func (m *Machine) BootID() (string, error) {
	s, err := m.view()
	if err != nil {
		return "", err
	}
	return s.BootID, nil
}

// Device is what a part really runs and stores, for comparison with what the product reports.
type Device struct {
	Key string
	// Present is false for a part that was unplugged or does not answer.
	Present bool
	// Running and Stored are versions; Stored is what runs after the right kind of activation.
	Running, Stored string
	// RunningDigest and StoredDigest are the SHA-256 of the image files they came from.
	RunningDigest, StoredDigest string
	// Torn is an interrupted write: the stored image is incomplete and will not run.
	Torn bool
	// Slots of an NVMe drive, from slot 1.
	Slots []string
	// ActiveSlot of an NVMe drive.
	ActiveSlot int
	// LinkUp of a NIC: every port with a cable has a link.
	LinkUp bool
	// VFs is the number of virtual functions of a NIC, Mode that of a BlueField.
	VFs  int
	Mode Mode
	// LastAttemptStatus of a BIOS, as in the ESRT.
	LastAttemptStatus int
}

// Device reads a part back.
func (m *Machine) Device(key string) (Device, error) {
	s, err := m.view()
	if err != nil {
		return Device{}, err
	}
	d := Device{Key: key, Present: s.present(key)}
	switch {
	case key == BIOSKey:
		s.BIOS.describe(&d)
	case s.NICs[key] != nil:
		s.NICs[key].describe(&d)
	case s.NVMe[key] != nil:
		s.NVMe[key].describe(&d)
	case s.SCSI[key] != nil:
		s.SCSI[key].describe(&d)
	case s.SATA[key] != nil:
		s.SATA[key].describe(&d)
	default:
		return Device{}, fmt.Errorf("read device: %s has no %q", s.Spec.Name, key)
	}
	return d, nil
}

// Running is the version a part runs.
func (m *Machine) Running(key string) (string, error) {
	d, err := m.Device(key)
	return d.Running, err
}

// Connected reports whether the machine reaches its gateway.
func (m *Machine) Connected() (bool, error) {
	s, err := m.view()
	if err != nil {
		return false, err
	}
	return s.uplinkUp(), nil
}

// Unplug removes a part; the kernel notices.
func (m *Machine) Unplug(key string) error {
	return m.update(func(s *state) error {
		s.Absent[key] = true
		return nil
	})
}

// Plug puts an unplugged part back, unchanged.
func (m *Machine) Plug(key string) error {
	return m.update(func(s *state) error {
		delete(s.Absent, key)
		return nil
	})
}

// partOf is the part with the key; the zero one where there is none.
func partOf[P interface{ key() string }](parts []P, key string) (part P) {
	if at := slices.IndexFunc(parts, func(p P) bool { return p.key() == key }); at >= 0 {
		part = parts[at]
	}
	return part
}

func (s *state) nic(key string) NIC   { return partOf(s.Spec.NICs, key) }
func (s *state) nvme(key string) NVMe { return partOf(s.Spec.NVMe, key) }
func (s *state) scsi(key string) SCSI { return partOf(s.Spec.SCSI, key) }
func (s *state) sata(key string) SATA { return partOf(s.Spec.SATA, key) }

func (s *state) present(key string) bool { return !s.Absent[key] }

// powerPoll is how often a waiter checks for a power event.
const powerPoll = 20 * time.Millisecond

// PowerEvent is an event that the machine's power switch has to handle.
type PowerEvent string

// The power events. Both end with Boot or PowerCycle, after the processes of the machine were stopped.
const (
	NoPowerEvent    PowerEvent = ""
	RebootRequested PowerEvent = "RebootRequested"
	PowerLost       PowerEvent = "PowerLost"
)

// PowerEvent says whether the machine asked for a reboot or lost its power since it booted. A reboot waits for the
// processes in scopes, which systemd does not kill: the real one waits for half an hour, this one without limit.
func (m *Machine) PowerEvent() (PowerEvent, error) {
	for file, event := range map[string]PowerEvent{"power-lost": PowerLost, "reboot-requested": RebootRequested} {
		_, err := os.Stat(m.path(file))
		if err == nil && event == RebootRequested {
			live, err := m.inScopes()
			if err == nil && len(live) > 0 {
				continue
			}
			return event, err
		}
		if err == nil {
			return event, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return NoPowerEvent, fmt.Errorf("look for power event: %w", err)
		}
	}
	return NoPowerEvent, nil
}

// RebootRequested reports whether the machine asked for a reboot since it booted.
func (m *Machine) RebootRequested() (bool, error) {
	e, err := m.PowerEvent()
	return e == RebootRequested, err
}

// WaitPowerEvent waits until the machine asks for a reboot or loses its power.
func (m *Machine) WaitPowerEvent(ctx context.Context) (PowerEvent, error) {
	tick := time.NewTicker(powerPoll)
	defer tick.Stop()
	for {
		if e, err := m.PowerEvent(); e != NoPowerEvent || err != nil {
			return e, err
		}
		select {
		case <-ctx.Done():
			return NoPowerEvent, ctx.Err()
		case <-tick.C:
		}
	}
}
