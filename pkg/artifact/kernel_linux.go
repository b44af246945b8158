package artifact

import (
	"os"

	"golang.org/x/sys/unix"
)

// writeEarly asks the kernel to write that part of a file to the disk. It asks in vain where the file system has no such call.
func writeEarly(f *os.File, from, length int64) {
	_ = unix.SyncFileRange(int(f.Fd()), from, length, unix.SYNC_FILE_RANGE_WRITE)
}

// exchangeDirs exchanges two directories of one file system in one step (renameat2(2), RENAME_EXCHANGE).
func exchangeDirs(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
