package journal

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

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
