package command

import (
	"bytes"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// follower reads what a tool appends to a file and keeps the last max bytes.
type follower struct {
	file   *os.File
	max    int64
	lines  *lineSplitter
	offset int64
	kept   []byte
}

// poll reads what is new and reports whether there was anything. Errors show as missing output: they must not make a write
// that succeeded look failed.
func (f *follower) poll() (news bool) {
	info, err := f.file.Stat()
	if err != nil {
		return false
	}
	size := info.Size()
	if size < f.offset { // emptied, where the file system cannot give back a part
		f.offset, news = 0, true
	}
	f.offset = max(f.offset, size-f.max)
	chunk := make([]byte, 32<<10)
	for f.offset < size {
		n, err := f.file.ReadAt(chunk[:min(int64(len(chunk)), size-f.offset)], f.offset)
		f.take(bytes.TrimLeft(chunk[:n], "\x00")) // what somebody else gave back meanwhile reads as zeros
		f.offset += int64(n)
		news = news || n > 0
		if err != nil && err != io.EOF || n == 0 {
			return news
		}
	}
	giveBack(f.file, f.max)
	return news
}

func (f *follower) take(p []byte) {
	f.lines.feed(p)
	f.kept = append(f.kept, p...)
	if int64(len(f.kept)) > 2*f.max {
		f.kept = append(f.kept[:0], f.tail()...)
	}
}

// tail is the last output, at most max bytes.
func (f *follower) tail() []byte {
	return f.kept[max(0, int64(len(f.kept))-f.max):]
}

func (f *follower) close() {
	f.lines.flush()
	_ = f.file.Close()
}

// giveBack returns to the disk what a tool printed, but for the last limit bytes, once that is worth it: a tool with endless output must
// not fill the disk of the journal. The tool, which appends, does not notice: a limit for its files or a pipe without a reader
// would end it in the middle of a write. Whoever follows the file does not either, because its size stays, and what is
// appended meanwhile is not lost, as it would be if the file were emptied. Errors show as a disk that fills up.
func giveBack(f *os.File, limit int64) {
	var stat unix.Stat_t
	if unix.Fstat(int(f.Fd()), &stat) != nil || stat.Blocks*512 <= 2*limit {
		return
	}
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, max(0, stat.Size-limit))
	if errors.Is(err, unix.EOPNOTSUPP) {
		_ = f.Truncate(0)
	}
}
