package simhost

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Boot reboots the machine, or powers it on after its power was lost: it ends the tools that still run, gives the
// machine a new boot id, activates the stored images that a reboot activates, and lets the kernel detect the hardware
// again. The daemon must be stopped before.
func (m *Machine) Boot() error { return m.start("Boot", Reboot) }

// PowerCycle cuts the power and boots.
func (m *Machine) PowerCycle() error { return m.start("PowerCycle", PowerCycle) }

func (m *Machine) start(action string, kind Activation) error {
	if err := m.endScopes(); err != nil {
		return err
	}
	if err := m.killTools(); err != nil {
		return err
	}
	for _, f := range []string{"reboot-requested", "power-lost"} {
		if err := os.Remove(m.path(f)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("boot machine: %w", err)
		}
	}
	err := m.update(func(s *state) error {
		if s.Off {
			kind = PowerCycle
		}
		s.Off, s.Boots, s.BootID = false, s.Boots+1, newBootID()
		if _, err := m.record(s, Operation{Action: action, Result: Done}); err != nil {
			return err
		}
		if err := m.resetSettings(s); err != nil {
			return err
		}
		for _, key := range s.Spec.keys() {
			if err := m.bootDevice(s, key, kind); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("boot machine: %w", err)
	}
	return nil
}

// boot is what a boot does to one part.
type boot struct {
	kind Activation
	// refuse makes the part keep its old image; status is what a BIOS reports about the attempt in either case.
	refuse bool
	status int
	// linkDown leaves the ports of a NIC down.
	linkDown bool
}

func (m *Machine) bootDevice(s *state, key string, kind Activation) error {
	b := boot{kind: kind}
	if f, err := m.strike("", key, "boot", Fail); err != nil {
		return err
	} else if f != nil {
		b.refuse, b.status = true, max(f.ExitCode, 1)
	}
	if f, err := m.strike("", key, "boot", FailAfterSuccess); err != nil {
		return err
	} else if f != nil {
		b.status = max(f.ExitCode, 1)
	}
	down, err := m.strike("", key, "boot", LinkDown)
	if err != nil {
		return err
	}
	b.linkDown = down != nil
	switch {
	case key == BIOSKey:
		looks := ""
		if len(s.Spec.ESPs) > 0 {
			looks = s.Spec.ESPs[0].Path
		}
		s.BIOS.boot(b, looks)
	case s.NICs[key] != nil:
		s.NICs[key].boot(b, s.nic(key).Activation)
		card := s.nic(key)
		if s.Boots == 1 {
			card.NextMode = "" // it waits since the machine was made
		}
		s.NICs[key].settle(card, card.VFs)
		if !card.ColdSettings || kind == PowerCycle {
			s.NICs[key].loadNV()
		}
	case s.NVMe[key] != nil:
		return m.bootNVMe(s, s.nvme(key), b)
	case s.SCSI[key] != nil:
		s.SCSI[key].boot(b, s.scsi(key).Activation)
	case s.SATA[key] != nil:
		s.SATA[key].boot(b, s.sata(key).Activation)
	}
	return nil
}

// activates reports whether a boot of this kind activates a part that needs the given activation.
func (b boot) activates(need Activation) bool { return need != PowerCycle || b.kind == PowerCycle }

// CutPower cuts the power. Running tools die; the next Boot is a cold start.
func (m *Machine) CutPower() error {
	if err := m.losePower(); err != nil {
		return err
	}
	if err := m.endScopes(); err != nil {
		return err
	}
	return m.killTools()
}

func (m *Machine) losePower() error {
	return m.update(func(s *state) error {
		s.Off = true
		if _, err := m.record(s, Operation{Action: "PowerLoss", Result: Done}); err != nil {
			return err
		}
		return m.replace(m.path("power-lost"), nil, 0o644)
	})
}

// Every tool holds a lock on a file named by its process id while it runs, so that a stale file is never taken for
// a process.
func (m *Machine) registerTool() (done func(), err error) {
	path := m.path("running", strconv.Itoa(os.Getpid()))
	unlock, err := lockFile(path, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	return func() { os.Remove(path); unlock() }, nil
}

func (m *Machine) killTools() error {
	entries, err := os.ReadDir(m.path("running"))
	if err != nil {
		return fmt.Errorf("list running tools: %w", err)
	}
	for _, e := range entries {
		path := m.path("running", e.Name())
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if unlock, err := lockFile(path, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			unlock()
		} else if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("end tool %d: %w", pid, err)
		} else if unlock, err := lockFile(path, unix.LOCK_EX); err == nil { // it is gone when its lock is
			unlock()
		}
		if err := os.Remove(filepath.Clean(path)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("forget tool: %w", err)
		}
	}
	return nil
}

func newBootID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
