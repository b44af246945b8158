package nvmetcp

import (
	"sync"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// Faults are the faults of a drive. Downloads are counted from 1 since the faults were set; 0 is none.
type Faults struct {
	// FailDownload is the download that fails with an internal error, once.
	FailDownload int `json:"failDownload,omitempty"`
	// HangDownload is the download that does not end until other faults are set.
	HangDownload int `json:"hangDownload,omitempty"`
	// VanishDownload is the download at which the drive vanishes for VanishTime.
	VanishDownload int           `json:"vanishDownload,omitempty"`
	VanishTime     time.Duration `json:"vanishTime,omitempty"`
	// LieOnCommit makes a commit succeed that stores nothing.
	LieOnCommit bool `json:"lieOnCommit,omitempty"`
	// PieceTime and CommitTime are how long a download and a commit take.
	PieceTime  time.Duration `json:"pieceTime,omitempty"`
	CommitTime time.Duration `json:"commitTime,omitempty"`
}

// SetFaults replaces all faults and releases commands that hang.
func (d *Drive) SetFaults(f Faults) {
	s := &d.faults
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released != nil {
		close(s.released)
	}
	s.faults, s.downloads, s.released = f, 0, make(chan struct{})
}

// Vanish ends all connections and refuses new ones for a time, like a drive that drops off its bus. Firmware that awaits
// a controller reset is active when it returns.
func (d *Drive) Vanish(until time.Duration) { d.wires.cut(until) }

// faultState is the faults and their progress.
type faultState struct {
	mu        sync.Mutex
	faults    Faults
	downloads int
	released  chan struct{}
}

// download applies the faults of one download before the command is executed.
func (s *faultState) download(d *Drive, t *task) nvmectrl.Status {
	s.mu.Lock()
	s.downloads++
	f, number, released := s.faults, s.downloads, s.released
	s.mu.Unlock()
	if number == f.VanishDownload {
		d.Vanish(f.VanishTime)
		return nvmectrl.InternalError
	}
	if number == f.HangDownload {
		return t.wait(released, forever)
	}
	if status := t.wait(nil, f.PieceTime); status != nvmectrl.Success {
		return status
	}
	if number == f.FailDownload {
		return nvmectrl.InternalError
	}
	return nvmectrl.Success
}

func (s *faultState) commit(t *task) nvmectrl.Status {
	s.mu.Lock()
	f := s.faults
	s.mu.Unlock()
	return t.wait(nil, f.CommitTime)
}

func (s *faultState) lies() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.LieOnCommit
}
