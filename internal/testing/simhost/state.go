package simhost

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// state is the persistent state of a machine. It is stored in state.json, changed only under the machine's lock, and
// replaced as a whole, so that a killed process leaves the old or the new one.
type state struct {
	Spec   Spec
	BootID string
	Boots  int
	Off    bool `json:",omitempty"`
	NICs   map[string]*nicState
	NVMe   map[string]*nvmeState
	SCSI   map[string]*scsiState
	SATA   map[string]*scsiState `json:",omitempty"`
	BIOS   *biosState
	// Absent parts are not in the machine.
	Absent map[string]bool
	// Operations counts the records of the history.
	Operations int
}

// flash is one stored image.
type flash struct {
	Version string `json:",omitempty"`
	Digest  string `json:",omitempty"`
	// Torn is an image of which only a part was written.
	Torn bool `json:",omitempty"`
	// LinkDown is firmware without links, Recovery firmware that does not start.
	LinkDown bool `json:",omitempty"`
	Recovery bool `json:",omitempty"`
}

func (m *Machine) path(elem ...string) string {
	return filepath.Join(append([]string{m.dir, "var/lib/simhost"}, elem...)...)
}

// update changes the state under the machine's lock. The function may be called in any process.
func (m *Machine) update(change func(*state) error) error {
	unlock, err := lockFile(m.path("lock"), unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := m.load()
	if err != nil {
		return err
	}
	old := render(s)
	if err := change(s); err != nil {
		return err
	}
	return m.save(s, old)
}

// view reads the state.
func (m *Machine) view() (*state, error) { return m.load() }

func (m *Machine) load() (*state, error) {
	data, err := os.ReadFile(m.path("state.json"))
	if err != nil {
		return nil, fmt.Errorf("read machine: %w", err)
	}
	s := &state{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("read machine %s: %w", m.dir, err)
	}
	return s, nil
}

// save stores the state and updates the host tree from the old one.
func (m *Machine) save(s *state, old tree) error {
	if err := m.changeTree(old, render(s)); err != nil {
		return fmt.Errorf("write host tree: %w", err)
	}
	data, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return fmt.Errorf("encode machine: %w", err)
	}
	return m.replace(m.path("state.json"), data, 0o644)
}

// replace writes a file so that readers see the old or the new content.
func (m *Machine) replace(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(m.path("tmp"), "file-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// lockFile waits for a lock on a file; the lock ends with the process at the latest.
func lockFile(path string, how int) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
