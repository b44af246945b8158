package artifact

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// checkAgain is how long the result of reading an image counts. Media decay without a trace in the file system.
const checkAgain = 6 * time.Hour

// reading is the result of reading an image again.
type reading struct {
	file os.FileInfo
	at   time.Time
	err  error
}

// check reads an image in store and compares it with its digest, unless this process has done so within the last six hours
// and the file is the same. A missing or damaged image is an error that matches fs.ErrNotExist: what is damaged is not
// served, and it is fetched again as if it were missing.
func (s *Store) check(d inventory.Digest) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	file, err := os.Stat(s.blob(d))
	if err != nil {
		delete(s.read, d)
		return err
	}
	last, ok := s.read[d]
	if ok && sameFile(last.file, file) && s.now().Sub(last.at) < checkAgain {
		return last.err
	}
	err = s.rehash(d)
	s.read[d] = reading{file: file, at: s.now(), err: err}
	return err
}

func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func (s *Store) rehash(want inventory.Digest) error {
	file, err := os.Open(s.blob(want))
	if err != nil {
		return err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return fmt.Errorf("read image: %w", err)
	}
	if got := inventory.Digest(hash.Sum(nil)); got != want {
		return fmt.Errorf("it is damaged, its digest is %s: %w", got, fs.ErrNotExist)
	}
	return nil
}
