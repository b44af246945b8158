package command

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// follower reads what a tool appends to a file. It keeps the last max bytes, and empties the file whenever it grew beyond
// cut, so that a tool with endless output fills neither the memory nor the disk of the journal.
type follower struct {
	file     *os.File
	max, cut int64
	lines    *lineSplitter
	offset   int64
	kept     []byte
	// emptied says that the file no longer holds all that is kept.
	emptied bool
}

// poll reads what is new and reports whether there was anything. Errors show as missing output: they must not make a write
// that succeeded look failed.
func (f *follower) poll() (news bool) {
	info, err := f.file.Stat()
	if err != nil {
		return false
	}
	size := info.Size()
	if size < f.offset { // somebody else emptied it
		f.offset, news = 0, true
	}
	f.offset = max(f.offset, size-f.max)
	chunk := make([]byte, 32<<10)
	for f.offset < size {
		n, err := f.file.ReadAt(chunk[:min(int64(len(chunk)), size-f.offset)], f.offset)
		f.take(chunk[:n])
		f.offset += int64(n)
		news = news || n > 0
		if err != nil && err != io.EOF || n == 0 {
			return news
		}
	}
	if size > f.cut && f.file.Truncate(0) == nil {
		f.offset, f.emptied = 0, true
	}
	return news
}

// restore makes what is kept the content of a file that was emptied meanwhile.
func (f *follower) restore() {
	if f.emptied && f.file.Truncate(0) == nil {
		_, _ = f.file.Write(f.tail())
	}
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

// giveBack returns to the disk what a tool printed that nobody follows any more, but for the last limit bytes. The tool, which
// appends, does not notice: a limit for its files or a pipe without a reader would end it in the middle of a write. Whoever
// follows the file all the same does not either, because its size stays. Errors show as a disk that fills up.
func giveBack(path string, limit int64) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	var stat unix.Stat_t
	if unix.Fstat(int(f.Fd()), &stat) != nil || stat.Blocks*512 <= 2*limit {
		return
	}
	err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, max(0, stat.Size-limit))
	if errors.Is(err, unix.EOPNOTSUPP) {
		_ = f.Truncate(0)
	}
}
