package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pollInterval is how often the output of a write is looked at.
const pollInterval = 200 * time.Millisecond

// write runs a tool that changes a device. Nothing here can end it: it has a session of its own, its output goes to
// files because a pipe would break when this process dies, and it inherits the lock.
func (r *ExecRunner) write(ctx context.Context, tool []string, c Command) (Result, error) {
	lock, err := r.acquire(ctx, c)
	if err != nil {
		return Result{}, failedToRun(c, err)
	}
	image, err := c.hold(r.cfg.MaxInMemory)
	if err != nil {
		_ = lock.Close()
		return Result{}, failedToRun(c, err)
	}
	w, err := r.begin(ctx, tool, c, inherited{lock, image})
	_ = image.Close() // the tool, or its worker, has it
	if err != nil {
		_ = lock.Close()
		return Result{}, failedToRun(c, err)
	}
	defer w.stopProgress()
	w.noteOutput()
	// Steps may take hours: what counts is the time without any output.
	patience := orDefault(c.Timeout, r.cfg.WriteTimeout)
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case <-w.done:
			return w.result, w.err
		case <-timeout.C:
			if left := patience - w.silence(); left > 0 {
				timeout.Reset(left)
				continue
			}
			return Result{}, failedToRun(c, fmt.Errorf("%w: it printed nothing for %s", ErrStillRunning, patience))
		case <-ctx.Done():
			return Result{}, failedToRun(c, fmt.Errorf("%w: %w", ErrStillRunning, context.Cause(ctx)))
		}
	}
}

// begin starts the tool, or a worker that does, and its supervision. On success the supervision owns the lock.
func (r *ExecRunner) begin(ctx context.Context, tool []string, c Command, give inherited) (*following, error) {
	bootID, err := r.cfg.BootID()
	if err != nil {
		return nil, fmt.Errorf("read boot id: %w", err)
	}
	w := &following{
		runner: r, command: c, base: r.lockBase(c.Lock), progress: c.Progress, done: make(chan struct{}),
		record: Writing{Lock: c.Lock, Argv: c.Argv, BootID: bootID, Started: time.Now().UTC()},
	}
	if c.Image != nil {
		w.record.Image = c.Image.Digest.String()
	}
	if err := w.record.save(w.base); err != nil { // a write that leaves no trace must not begin
		return nil, err
	}
	stdout, stderr, err := w.createOutputs()
	if err != nil {
		return nil, err
	}
	start := w.startTool
	if len(r.cfg.Worker) > 0 {
		start = w.startWorker
	}
	if err := start(ctx, tool, give); err != nil {
		return nil, errors.Join(err, stdout.Close(), stderr.Close())
	}
	return w, nil
}

// inherited are the files that the tool of a write gets: its lock, and its image or nil.
type inherited struct{ lock, image *os.File }

// following is a write that was started by this process and may outlast the call that did so.
type following struct {
	runner  *ExecRunner
	command Command
	base    string
	record  Writing

	stdout, stderr *follower
	// lastOutput is when the tool last printed something.
	lastOutput atomic.Pointer[time.Time]
	// done is closed when the write is over; then result and err say how.
	done   chan struct{}
	result Result
	err    error

	mu       sync.Mutex
	progress func(string)
}

// createOutputs empties the outputs of the previous write. The tool appends, so that emptying them again is always safe.
func (w *following) createOutputs() (stdout, stderr *os.File, err error) {
	const flags = os.O_CREATE | os.O_RDWR | os.O_APPEND | os.O_TRUNC
	stdout, err = os.OpenFile(w.base+outSuffix, flags, 0o600)
	if err != nil {
		return nil, nil, err
	}
	stderr, err = os.OpenFile(w.base+errSuffix, flags, 0o600)
	if err != nil {
		return nil, nil, errors.Join(err, stdout.Close())
	}
	limit := w.runner.cfg.MaxOutput
	w.stdout = &follower{file: stdout, max: limit, lines: newLineSplitter(w.report)}
	w.stderr = &follower{file: stderr, max: limit}
	return stdout, stderr, nil
}

func (w *following) startTool(ctx context.Context, tool []string, give inherited) error {
	w.record.Unprotected = errNoWorker.Error()
	if err := w.unprotected(ctx); err != nil {
		return err
	}
	argv := argvOf(tool, w.command.reading(writeImageFD))
	cmd := exec.Command(argv[0], argv[1:]...) // no context: a write outlives all of them
	w.runner.prepare(cmd, w.command)
	cmd.Stdout, cmd.Stderr = w.stdout.file, w.stderr.file
	cmd.ExtraFiles = append([]*os.File{give.lock}, files(give.image)...) // the lock, and writeImageFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start tool: %w", err)
	}
	w.record.Tool = processOf(cmd.Process.Pid)
	_ = w.record.save(w.base) // the write goes on, and its lock shows that
	go func() {
		w.follow(cmd)
		w.closeOutputs()
		w.result, w.err = outcome(w.command, cmd.ProcessState, Result{Stdout: w.stdout.tail(), Stderr: w.stderr.tail()})
		w.record.Ended = ended(cmd.ProcessState)
		_ = w.record.save(w.base)
		// Descendants of the tool that go on keep holding it.
		_ = give.lock.Close()
		close(w.done)
	}()
	return nil
}

// follow reads the outputs until the process ends, and reaps it.
func (w *following) follow(cmd *exec.Cmd) { reap(cmd, w.listen) }

// reap waits for the process, and listens to its outputs until after its end.
func reap(cmd *exec.Cmd, listen func()) {
	gone := make(chan struct{})
	go func() {
		// How it ended is in ProcessState; the outputs are files, so that no other error is possible.
		_ = cmd.Wait()
		close(gone)
	}()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for running := true; running; {
		select {
		case <-gone:
			running = false
		case <-ticker.C:
		}
		listen()
	}
}

func (w *following) listen() {
	printed, complained := w.stdout.poll(), w.stderr.poll()
	if printed || complained {
		w.noteOutput()
	}
}

func (w *following) noteOutput() {
	now := time.Now()
	w.lastOutput.Store(&now)
}

func (w *following) closeOutputs() {
	w.stdout.close()
	w.stderr.close()
}

// silence is how long the tool has printed nothing.
func (w *following) silence() time.Duration { return time.Since(*w.lastOutput.Load()) }

func (w *following) report(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.progress != nil {
		w.progress(line)
	}
}

// stopProgress ends progress reports when the caller stops waiting.
func (w *following) stopProgress() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress = nil
}

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
// appended meanwhile is not lost, as it would be if the file were emptied. Errors, such as of a file system that cannot give back a part of
// a file, show as a disk that fills up.
func giveBack(f *os.File, limit int64) {
	var stat unix.Stat_t
	if unix.Fstat(int(f.Fd()), &stat) != nil || stat.Blocks*512 <= 2*limit {
		return
	}
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, max(0, stat.Size-limit))
}
