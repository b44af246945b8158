package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
)

// Guest reads a state directory that other processes open, one after the other, to execute one job each. It changes
// nothing there.
type Guest struct{ dir string }

// NewGuest returns a guest of the directory, which need not exist yet.
func NewGuest(dir string) *Guest { return &Guest{dir: dir} }

// View reads the journal even while another process has it open; it is empty before the first job.
func (g *Guest) View() (journal.View, error) {
	v, err := journal.Peek(g.dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, journal.ErrEarlier) { // the next process that opens it sets it aside
		return journal.View{}, nil
	}
	return v, err
}

// Share prevents other processes from opening the directory until done is called; other guests may share it. Ok is
// false while a process has it open: that process reads and reports the machine itself.
func (g *Guest) Share() (done func(), ok bool, err error) {
	if err := os.MkdirAll(g.dir, 0o700); err != nil {
		return nil, false, fmt.Errorf("share state directory: %w", err)
	}
	l := flock.New(filepath.Join(g.dir, lockFile))
	ok, err = l.TryRLock()
	if err != nil {
		return nil, false, fmt.Errorf("share state directory: %w", err)
	}
	return func() { _ = l.Close() }, ok, nil
}
