package devlink

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// errChanged says that an image is not the one that was verified, or that somebody may be changing it.
var errChanged = errors.New("nothing was written, because the image is not the one that was verified")

// unchanged runs do with a file that nobody writes to. The kernel opens an image by its name and reads it in one go at the beginning of a
// flash, so it cannot get a copy from us. Instead a read lease (fcntl(2), F_SETLEASE) is held on the file meanwhile: it is granted only
// where nobody has the file open for writing, and who opens it so waits until the lease is given back, or for
// /proc/sys/fs/lease-break-time, 45 s. Under the lease the content is hashed and compared, unless want is nil. A file system without
// leases is hashed all the same.
func unchanged(path string, want *inventory.Digest, do func() error) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open image: %w", err)
	}
	defer f.Close() // ends the lease
	if err := lease(f); err != nil {
		return err
	}
	if want == nil {
		return do()
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return fmt.Errorf("read image: %w", err)
	}
	if got := inventory.Digest(sum.Sum(nil)); got != *want {
		return fmt.Errorf("%w: its content is %s, and not %s", errChanged, got, want)
	}
	return do()
}

// lease takes the lease. A process that was just born has, for an instant, all files open that the one which bore it has.
func lease(f *os.File) error {
	const attempts, pause = 40, 25 * time.Millisecond
	for range attempts {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK); !errors.Is(err, unix.EAGAIN) {
			return nil
		}
		<-time.After(pause)
	}
	return fmt.Errorf("%w: another program has it open for writing", errChanged)
}
