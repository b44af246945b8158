package chaos

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable/durabletest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// full is the error of a full disk; nil while the disk has room.
func (w *world) full() error {
	switch {
	case !w.diskGone():
		return nil
	case w.readOnly:
		return syscall.EROFS
	}
	return syscall.ENOSPC
}

// diary is the journal as the engine uses it, with boundaries around what is written.
type diary struct{ *world }

// View implements engine.Journal.
func (b diary) View() (journal.View, error) { return b.book.View() }

// Save implements engine.Journal.
func (b diary) Save(job journal.Job, devices ...journal.Device) error {
	return b.write(func() error { return b.book.Save(job, devices...) }, devices, job)
}

// TakeOver implements engine.Journal.
func (b diary) TakeOver(next, held journal.Job) error {
	superseded := held
	superseded.SupersededBy, superseded.Reported = next.Name, false
	return b.write(func() error { return b.book.TakeOver(next, held) }, nil, next, superseded)
}

func (b diary) write(save func() error, devices []journal.Device, jobs ...journal.Job) error {
	b.point(opSave, Before, "")
	if err := b.full(); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if err := b.keepUnsynced(); err != nil {
		return err
	}
	if err := save(); err != nil {
		return err
	}
	b.learn(devices, jobs)
	b.point(opSave, After, "")
	b.unsynced = nil
	if kind, _ := b.takePending(); kind == SyncFails {
		return fmt.Errorf("write the journal: %w", syscall.EIO)
	}
	b.note(Event{Kind: EventSaved})
	return nil
}

// keepUnsynced keeps the journal's file where the power is cut before what is written now is safe.
func (w *world) keepUnsynced() (err error) {
	cut := func(f Fault) bool { return f.Kind == PowerCut && f.At <= w.points+1 }
	if slices.ContainsFunc(w.faults, cut) {
		w.unsynced, err = os.ReadFile(w.journalPath())
	}
	return err
}

// readDisk records the content of the journal on disk.
func (w *world) readDisk() error {
	view, err := w.book.View()
	if err != nil {
		return err
	}
	w.disk = view
	w.learn(nil, nil)
	return nil
}

// learn records what was saved to the journal on disk.
func (w *world) learn(devices []journal.Device, jobs []journal.Job) {
	for _, d := range devices {
		w.disk.Devices[d.UniqueID] = d
	}
	for _, j := range jobs {
		w.disk.Jobs = append(slices.DeleteFunc(w.disk.Jobs, func(o journal.Job) bool { return o.UID == j.UID }), j)
	}
	for _, d := range w.devices {
		w.learnOriginal(d)
	}
}

// learnOriginal records what ran on a device when the journal first named the version a rollback restores.
func (w *world) learnOriginal(d *device) {
	active := w.disk.Active()
	if d.original != nil || active == nil {
		return
	}
	for _, u := range active.Record.Updates {
		if u.Device == nameOf(d.id.UniqueID) && u.From != "" {
			d.original, _ = w.sim.Running(d.id.UniqueID)
			d.before = w.sim.Firmware(d.id.UniqueID).Running
		}
	}
}

func (w *world) stateDir() string    { return filepath.Join(w.dir, "state") }
func (w *world) journalPath() string { return filepath.Join(w.stateDir(), journal.FileName) }

// cutFiles puts the archive's disk into a state that a power cut may leave.
func (w *world) cutFiles(arg int) {
	w.must(w.tearJournal(arg))
	w.cuts++
	next := filepath.Join(w.dir, fmt.Sprintf("files-%d", w.cuts))
	w.must(w.files.Cut(seeded(arg+3*w.points), next))
	w.filesDir = next
	w.syncFiles()
}

// syncFiles marks everything on the archive's disk as durable.
func (w *world) syncFiles() {
	var err error
	w.files, err = durabletest.New(w.filesDir)
	w.must(err)
}

// must panics on an error of the disk of the machine that the campaign runs on.
func (w *world) must(err error) {
	if err != nil {
		panic(fmt.Errorf("run the campaign: %w", err))
	}
}

const (
	pageSize = 4096
	metas    = 2
)

// tearJournal leaves of a save that was not safe yet: nothing, all but the page that makes it valid, or some of it with that
// page torn. It must not be open.
func (w *world) tearJournal(arg int) error {
	before := w.unsynced
	if w.unsynced = nil; before == nil {
		return nil
	}
	torn, err := os.ReadFile(w.journalPath())
	if err != nil {
		return err
	}
	switch arg % 3 {
	case 0:
		torn = before
	case 1:
		copy(torn[:metas*pageSize], before)
	case 2:
		random := seeded(arg + w.points)
		for at := 0; at < len(before); at += pageSize {
			page := torn[at : at+pageSize]
			switch old := before[at : at+pageSize]; {
			case at < metas*pageSize:
				copy(page[32:], old[32:]) // the new page's beginning, without the checksum that makes it valid
			case random.IntN(2) == 0:
				copy(page, old)
			}
		}
	}
	return os.WriteFile(w.journalPath(), torn, 0o600)
}

// archived reports whether the image that the job on disk would restore to the device survives a power cut at this moment, and
// the operation that begins.
func (w *world) archived(d *device, by string) bool {
	active := w.disk.Active()
	if active == nil {
		return false
	}
	for _, u := range active.Record.Updates {
		if u.Device != nameOf(d.id.UniqueID) {
			continue
		}
		switch u.Rollback {
		case inventory.RollbackNone:
			return true
		case inventory.RollbackSlot:
			return w.keeps(d, u.From) && (by == opRevert || !w.sim.Loses(d.id.UniqueID, u.From))
		default:
			return w.survives(d, u.From)
		}
	}
	return false
}

// keeps reports whether a slot of the device holds the version.
func (w *world) keeps(d *device, v inventory.Version) bool {
	return slices.ContainsFunc(w.sim.Firmware(d.id.UniqueID).Slots, func(s inventory.Slot) bool { return s.Version == v })
}

func (w *world) survives(d *device, v inventory.Version) bool {
	w.cuts++
	to := filepath.Join(w.dir, fmt.Sprintf("proof-%d", w.cuts))
	w.must(w.files.Cut(seeded(w.cuts), to))
	img, _, err := archive.New(filepath.Join(to, "archive"), durable.OS{}).Image(d.id.UniqueID, v)
	return err == nil && img.Digest == digest(d.original)
}

// shelf is the disk of the archive, with a boundary before each operation.
type shelf struct{ *world }

var _ durable.FS = shelf{}

func (s shelf) change(op, path string) error {
	s.point(opFile+op, Before, "")
	if err := s.full(); err != nil {
		return &fs.PathError{Op: op, Path: path, Err: err}
	}
	return nil
}

func (s shelf) do(op, path string, f func() error) error {
	if err := s.change(op, path); err != nil {
		return err
	}
	return f()
}

// Create implements durable.FS.
func (s shelf) Create(path string) (durable.File, error) {
	if err := s.change("create", path); err != nil {
		return nil, err
	}
	f, err := s.files.Create(path)
	return shelfFile{f, s, path}, err
}

// Open implements durable.FS.
func (s shelf) Open(path string) (io.ReadCloser, error) { return s.files.Open(path) }

// ReadDir implements durable.FS.
func (s shelf) ReadDir(path string) ([]fs.DirEntry, error) { return s.files.ReadDir(path) }

// Mkdir implements durable.FS.
func (s shelf) Mkdir(path string) error {
	return s.do("mkdir", path, func() error { return s.files.Mkdir(path) })
}

// Rename implements durable.FS.
func (s shelf) Rename(from, to string) error {
	return s.do("rename", from, func() error { return s.files.Rename(from, to) })
}

// Remove implements durable.FS.
func (s shelf) Remove(path string) error {
	return s.do("remove", path, func() error { return s.files.Remove(path) })
}

// RemoveAll implements durable.FS.
func (s shelf) RemoveAll(path string) error {
	return s.do("remove-all", path, func() error { return s.files.RemoveAll(path) })
}

// SyncFile implements durable.FS.
func (s shelf) SyncFile(path string) error {
	return s.do("sync", path, func() error { return s.files.SyncFile(path) })
}

// SyncDir implements durable.FS.
func (s shelf) SyncDir(path string) error {
	return s.do("sync-dir", path, func() error { return s.files.SyncDir(path) })
}

// shelfFile is a file of the archive.
type shelfFile struct {
	durable.File
	shelf shelf
	path  string
}

// Write writes half of it where the disk fills up.
func (f shelfFile) Write(p []byte) (int, error) {
	if err := f.shelf.change("write", f.path); err != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	return f.File.Write(p)
}

// Sync implements durable.File.
func (f shelfFile) Sync() error { return f.shelf.do("sync", f.path, f.File.Sync) }
