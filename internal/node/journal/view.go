package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/pkg/step"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// View is the content of the journal at one moment.
type View struct {
	// Jobs in no particular order: the active one, and the last finished ones.
	Jobs []Job
	// Devices by unique id.
	Devices map[string]Device
	// History of finished jobs, newest first, at most ten.
	History []Past
	// Verdict is the last result of the health gate; nil when there is none.
	Verdict *Verdict

	note string
}

// Past is a job that has finished.
type Past struct {
	Job      string    `json:"job"`
	Result   Result    `json:"result"`
	Finished time.Time `json:"finished"`
	Message  string    `json:"message,omitempty"`
}

// Result says how a job ended.
type Result string

// The results of a job. A cancelled one ended before it wrote anything.
const (
	Complete  Result = "Complete"
	Failed    Result = "Failed"
	Cancelled Result = "Cancelled"
)

// View reads the journal.
func (j *Journal) View() (View, error) {
	v := View{Devices: map[string]Device{}}
	err := j.db.View(func(tx *bbolt.Tx) (err error) {
		if err := eachJob(tx, func(job Job) { v.Jobs = append(v.Jobs, job) }); err != nil {
			return err
		}
		if v.History, err = readHistory(tx); err != nil {
			return err
		}
		if v.Verdict, err = readVerdict(tx); err != nil {
			return err
		}
		v.note = string(tx.Bucket(bucketMeta).Get(keyNote))
		return tx.Bucket(bucketDevices).ForEach(func(key, raw []byte) error {
			var d Device
			if err := json.Unmarshal(raw, &d); err != nil {
				return fmt.Errorf("decode device %s: %w", key, err)
			}
			v.Devices[d.UniqueID] = d
			return nil
		})
	})
	if err != nil {
		return View{}, fmt.Errorf("read the journal: %w", err)
	}
	return v, nil
}

// Active is the job that runs or, when none does, the one that holds the node; nil when there is neither.
func (v View) Active() *Job {
	var held *Job
	for i := range v.Jobs {
		switch job := &v.Jobs[i]; {
		case job.Record.Outcome == "":
			return job
		case job.Held():
			held = job
		}
	}
	return held
}

// Job finds a job by its UID, nil when the journal has none.
func (v View) Job(uid string) *Job {
	for i := range v.Jobs {
		if v.Jobs[i].UID == uid {
			return &v.Jobs[i]
		}
	}
	return nil
}

// Held is the job that holds the node after its failure; nil when none does.
func (v View) Held() *Job {
	for i := range v.Jobs {
		if v.Jobs[i].Held() {
			return &v.Jobs[i]
		}
	}
	return nil
}

// LastError is the message of the last failed job, empty once a later one completed.
func (v View) LastError() string {
	for _, r := range v.History {
		switch r.Result {
		case Failed:
			return r.Message
		case Complete:
			return ""
		}
	}
	return v.note
}

func eachJob(tx *bbolt.Tx, f func(Job)) error {
	return tx.Bucket(bucketJobs).ForEach(func(_, raw []byte) error {
		job, err := decodeJob(raw)
		if err == nil {
			f(job)
		}
		return err
	})
}

func readHistory(tx *bbolt.Tx) ([]Past, error) {
	raw := tx.Bucket(bucketMeta).Get(keyHistory)
	if raw == nil {
		return nil, nil
	}
	var h []Past
	if err := json.Unmarshal(raw, &h); err != nil {
		return nil, errors.Join(errors.New("decode history"), err)
	}
	return h, nil
}

func readVerdict(tx *bbolt.Tx) (*Verdict, error) {
	raw := tx.Bucket(bucketMeta).Get(keyVerdict)
	if raw == nil {
		return nil, nil
	}
	var v Verdict
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, fmt.Errorf("decode verdict: %w", err)
	}
	switch v.Result {
	case Healthy, Unhealthy:
		return &v, nil
	}
	return nil, fmt.Errorf("decode verdict: unknown result %q; was it written by a newer daemon?", v.Result)
}

const maxHistoryMessage = 256

func record(job Job) Past {
	r := Past{Job: job.Name, Result: Complete, Finished: *job.Finished}
	if f := job.Record.Failure; f != nil {
		r.Result = Failed
		if f.Reason == step.Cancelled {
			r.Result = Cancelled
		}
		r.Message = fmt.Sprintf("%s: %s", f.Reason, f.Message)
		switch {
		case job.Record.Released:
			r.Message = "returned to service by request after " + r.Message
		case job.SupersededBy != "":
			r.Message = "taken over by " + job.SupersededBy + " after " + r.Message
		}
		r.Message = text.Clip(r.Message, maxHistoryMessage)
	}
	return r
}

// ErrDamaged says that a journal cannot be read.
var ErrDamaged = errors.New("it is damaged; check the disk, and move the file away to start without its records")

// openDB opens the file of a journal. It returns an error that wraps ErrDamaged when bbolt cannot read it.
func openDB(path string, o bbolt.Options) (db *bbolt.DB, err error) {
	if info, err := os.Stat(path); err == nil && info.Size() > 0 && info.Size() < 2*int64(os.Getpagesize()) {
		return nil, fmt.Errorf("%w: %d bytes", ErrDamaged, info.Size())
	}
	err = guard(func() (err error) { db, err = bbolt.Open(path, 0o600, &o); return err })
	if errors.Is(err, berrors.ErrInvalid) || errors.Is(err, berrors.ErrChecksum) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return db, err
}

// Check reads the whole journal. It returns an error that wraps ErrDamaged when bbolt cannot read it. A record that
// cannot be decoded is another error: it may be damaged, or from a newer daemon.
func (j *Journal) Check() error {
	return guard(func() error {
		if _, err := j.View(); err != nil {
			return fmt.Errorf("%w; install the firmware-daemon that wrote it, or check the disk, and move the file "+
				"away to start without the records of "+FileName, err)
		}
		return nil
	})
}

// guard turns the panics and memory faults of bbolt on damaged pages into errors.
func guard(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, r)
		}
	}()
	return do()
}

const (
	peekAttempts = 50
	peekPause    = 20 * time.Millisecond
)

// errMoving says that the journal changed while it was copied.
var errMoving = errors.New("it keeps changing; try again")

// Peek reads the journal in the state directory while a daemon may have it open. It reads a copy, and changes nothing.
// A missing journal is an error that matches fs.ErrNotExist.
func Peek(stateDir string) (View, error) {
	path := filepath.Join(stateDir, FileName)
	v, err := peek(path)
	if err != nil {
		return View{}, fmt.Errorf("read journal %s: %w", path, err)
	}
	return v, nil
}

func peek(path string) (v View, err error) {
	copied, err := memoryFile()
	if err != nil {
		return View{}, err
	}
	defer copied.Close()
	if err := copySteady(copied, path); err != nil {
		return View{}, err
	}
	if info, err := copied.Stat(); err != nil || info.Size() == 0 {
		return View{}, err
	}
	db, err := openDB(copied.Name(), bbolt.Options{ReadOnly: true})
	if err != nil {
		return View{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = guard(func() (err error) {
		if known, err := known(db); err != nil || !known {
			return err
		}
		v, err = (&Journal{db: db}).View()
		return err
	})
	return v, err
}

// memoryFile creates a file in memory, because the disk may be full, read-only or damaged. It has a name that can be
// opened.
func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("journal", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd)), nil
}

// copySteady copies a journal at a moment when no change is in progress.
func copySteady(to *os.File, path string) error {
	for range peekAttempts {
		err := copyOnce(to, path)
		if !errors.Is(err, errMoving) {
			return err
		}
		<-time.After(peekPause)
	}
	return errMoving
}

// copyOnce copies the file. bbolt writes the pages of a change to unused places, and then one of the two meta pages at
// the front, which refer to the root. When the meta pages are the same before and after the copy, the pages they refer
// to have not changed.
func copyOnce(to *os.File, path string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	before, err := front(from)
	if err != nil {
		return err
	}
	if err := to.Truncate(0); err != nil {
		return err
	}
	content := io.NewSectionReader(from, 0, 1<<40)
	if _, err := io.Copy(io.NewOffsetWriter(to, 0), content); err != nil {
		return err
	}
	after, err := front(from)
	if err == nil && !bytes.Equal(before, after) {
		err = errMoving
	}
	return err
}

func front(f *os.File) ([]byte, error) {
	b := make([]byte, 2*os.Getpagesize())
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}
