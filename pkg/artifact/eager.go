package artifact

import (
	"os"

	"golang.org/x/sys/unix"
)

// eagerAfter is after how many bytes the kernel is asked to write them to the disk.
const eagerAfter = 4 << 20

// eager writes a file so that the disk works while the rest is received and hashed: the Sync at the end has little left to do. It
// promises nothing before that Sync, and asks in vain where the kernel or the file system has no such call.
type eager struct {
	*os.File
	size, asked int64
}

// Write appends to the file.
func (e *eager) Write(p []byte) (int, error) {
	n, err := e.File.Write(p)
	if e.size += int64(n); e.size-e.asked >= eagerAfter {
		_ = unix.SyncFileRange(int(e.Fd()), e.asked, e.size-e.asked, unix.SYNC_FILE_RANGE_WRITE)
		e.asked = e.size
	}
	return n, err
}
