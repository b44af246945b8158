package command

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

// Writing is what is known of the last write under a lock, whichever process began it. Everything but State, LastLine and
// LastOutput is kept in a file next to the lock.
type Writing struct {
	Lock string
	Argv []string
	// Image is the digest of what the tool got in the place of the image that Argv names; empty where that is none.
	Image string `json:",omitempty"`
	// BootID is the boot in which it was begun; Started is when.
	BootID  string
	Started time.Time
	// Worker is the process that waits for the tool, and Tool the tool itself. They are zero until they have started; Worker stays zero if
	// the tool was started without one.
	Worker, Tool Process
	// Protected says that the write survives the end of the container it was begun in. Unprotected says why it does not.
	Protected   bool
	Unprotected string `json:",omitempty"`
	// Inhibited says that the host was asked not to shut down as long as the tool runs. Uninhibited says why it was not.
	Inhibited   bool
	Uninhibited string `json:",omitempty"`
	// Ended is how the tool ended; nil while that is not known.
	Ended *Ended `json:",omitempty"`

	// State is where the write stands now.
	State WriteState `json:"-"`
	// LastLine is the last line of the tool's output, and LastOutput when it printed something.
	LastLine   string    `json:"-"`
	LastOutput time.Time `json:"-"`
}

// Ended is how a tool ended.
type Ended struct {
	// ExitCode is -1 when the tool was ended by Signal.
	ExitCode int
	Signal   string `json:",omitempty"`
	Time     time.Time
}

// WriteState is where a write stands.
type WriteState string

// The states of a write.
const (
	// WriteRunning: the tool, its worker or a process one of them left behind holds the lock.
	WriteRunning WriteState = "Running"
	// WriteEnded: the tool is gone, and Ended says how it ended.
	WriteEnded WriteState = "Ended"
	// WriteLost: no process of the write is left, and how it ended was not recorded. Only the device knows the result.
	WriteLost WriteState = "Lost"
)

// Writing reports what is known of the last write under the lock; nil when there was none. A write of an earlier boot is
// over.
func (r *ExecRunner) Writing(lock string) (*Writing, error) {
	base := r.lockBase(lock)
	running, err := r.WriteRunning(lock)
	if err != nil {
		return nil, err
	}
	w, err := readRecord(base)
	if err != nil || w == nil && !running {
		return nil, err
	}
	bootID, err := r.cfg.BootID()
	if err != nil {
		return nil, fmt.Errorf("read boot id: %w", err)
	}
	switch {
	case running && (w == nil || w.BootID != bootID):
		return &Writing{Lock: lock, BootID: bootID, State: WriteRunning}, nil // it has the lock, and its record comes
	case running:
		w.State = WriteRunning
	case w.Ended != nil:
		w.State = WriteEnded
	default:
		w.State = WriteLost
	}
	w.readOutput(base)
	return w, nil
}

// readOutput looks at what the tool printed. It is for people alone: what cannot be read is left out.
func (w *Writing) readOutput(base string) {
	for _, path := range []string{base + errSuffix, base + outSuffix} {
		tail, changed, err := readTail(path, maxLine)
		if err != nil || len(bytes.TrimSpace(tail)) == 0 {
			continue
		}
		newLineSplitter(func(line string) {
			if line = strings.TrimSpace(line); line != "" {
				w.LastLine = strings.ToValidUTF8(line, "?")
			}
		}).all(tail)
		if changed.After(w.LastOutput) {
			w.LastOutput = changed
		}
	}
}

// readTail reads the last bytes of a file, at most limit.
func readTail(path string, limit int64) (tail []byte, changed time.Time, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	tail, err = io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-limit), limit))
	return tail, info.ModTime(), err
}

// describe names who writes, for messages.
func (w *Writing) describe() string {
	if w == nil {
		return ""
	}
	who := "a process that was not recorded"
	switch {
	case w.Tool.Alive():
		who = fmt.Sprintf("process %d", w.Tool.PID)
	case w.Worker.Alive():
		who = fmt.Sprintf("worker process %d", w.Worker.PID)
	case w.Tool.PID != 0:
		who = fmt.Sprintf("what process %d left behind", w.Tool.PID)
	}
	return fmt.Sprintf("%s, %q, since %s", who, strings.Join(w.Argv, " "), w.Started.Format(time.RFC3339))
}

func (w *Writing) result(c Command, base string, limit int64) (Result, error) {
	stdout, _, err := readTail(base+outSuffix, limit)
	stderr, _, err2 := readTail(base+errSuffix, limit)
	if err := errors.Join(err, err2); err != nil {
		return Result{}, failedToRun(c, fmt.Errorf("read output: %w", err))
	}
	result := Result{ExitCode: w.Ended.ExitCode, Stdout: stdout, Stderr: stderr}
	if w.Ended.Signal != "" {
		return Result{}, Failed(c, result, fmt.Errorf("ended by signal %s", w.Ended.Signal))
	}
	return result, nil
}

// The files of a write are named after its lock: the lock itself, what is recorded of the write, and its output.
const (
	lockSuffix   = ".lock"
	recordSuffix = ".json"
	outSuffix    = ".out"
	errSuffix    = ".err"
)

// save records the write durably. Only the process that holds the lock, or that got an order from the one that held it
// before, calls it.
func (w *Writing) save(base string) error {
	data, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("encode record of write: %w", err)
	}
	return durable.WriteFile(durable.OS{}, base+recordSuffix, data)
}

// readRecord reads what was recorded of the last write; nil when nothing was. A record that cannot be understood is treated
// as none, because it must not prevent the next write.
func readRecord(base string) (*Writing, error) {
	data, err := os.ReadFile(base + recordSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read record of write: %w", err)
	}
	w := &Writing{}
	if json.Unmarshal(data, w) != nil {
		return nil, nil
	}
	return w, nil
}

func ended(state *os.ProcessState) *Ended {
	e := &Ended{ExitCode: state.ExitCode(), Time: time.Now().UTC()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.ExitCode, e.Signal = -1, status.Signal().String()
	}
	return e
}

func kernelBootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

// order is what a worker is to do. It comes through a pipe, and the worker starts nothing before the order is complete.
type order struct {
	// Argv is the command line, the path of the tool first.
	Argv []string
	// Base is the beginning of the paths of the write's files.
	Base string
	// MaxOutput bounds the output files.
	MaxOutput int64
	// Inhibit is the command that holds off a shutdown of the host, its path first; empty for none.
	Inhibit []string
	// HasImage says that the worker holds an image for the tool, as workerImageFD.
	HasImage bool
	// Writing is what is to be recorded.
	Writing Writing
}

// errNoOrder says that the process that started the worker has ended, or gave up before it sent the order.
var errNoOrder = errors.New("received no order; the tool was not started")

// send gives the order. What was sent cannot be taken back.
func (o order) send(to io.Writer) error {
	data, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode order: %w", err)
	}
	if _, err := to.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("give order to worker: %w", err)
	}
	return nil
}

// receive waits for the order. The line end is its last byte, so that half an order is never taken for one.
func receive(from io.Reader) (order, error) {
	data, err := io.ReadAll(from)
	if err != nil {
		return order{}, fmt.Errorf("read order: %w", err)
	}
	if len(data) == 0 || data[len(data)-1] != '\n' {
		return order{}, errNoOrder
	}
	var o order
	if err := json.Unmarshal(data, &o); err != nil {
		return order{}, fmt.Errorf("decode order: %w", err)
	}
	return o, nil
}

// A lock is flock(2) on a file of its own. The open file, and with it the lock, is shared with the tool and all that
// the tool starts: it is free only when the last of them is gone, whatever happens to this process. Lock files stay,
// since removing one races with whoever just opened it.
//
// The lock of a write is not a flock.Flock: that keeps its file to itself, where the worker has to inherit it, and its end
// unlocks the file for everybody who inherited it.

// WriteRunning reports whether a Write under the lock still runs, started by this process or by an earlier one. It also bounds the output
// of a running write: called from time to time, it keeps a tool whose daemon and worker died from filling the disk.
func (r *ExecRunner) WriteRunning(lock string) (bool, error) {
	l := flock.New(r.lockBase(lock)+lockSuffix, flock.SetFlag(os.O_RDONLY))
	defer withoutForks()()
	free, err := l.TryRLock()
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for a running write: %w", err)
	}
	if !free {
		// Who began the write may be gone, and with it who bounds its output.
		for _, suffix := range []string{outSuffix, errSuffix} {
			if f, err := os.OpenFile(r.lockBase(lock)+suffix, os.O_WRONLY, 0); err == nil {
				giveBack(f, r.cfg.MaxOutput)
				_ = f.Close()
			}
		}
	}
	return !free, l.Close()
}

// WritesRunning reports whether any Write of a state directory still runs, whoever began it.
func WritesRunning(stateDir string) (bool, error) {
	locks, err := filepath.Glob(filepath.Join(stateDir, "run", "*"+lockSuffix))
	if err != nil {
		return false, fmt.Errorf("list locks of writes: %w", err)
	}
	defer withoutForks()()
	for _, file := range locks {
		l := flock.New(file, flock.SetFlag(os.O_RDONLY))
		free, err := l.TryRLock()
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			return false, fmt.Errorf("look for a running write: %w", err)
		}
		if err := l.Close(); err != nil || !free {
			return !free, err
		}
	}
	return false, nil
}

func (r *ExecRunner) acquire(ctx context.Context, c Command) (*os.File, error) {
	if c.Lock == "" {
		return nil, errors.New("a write needs a lock: name the device it changes")
	}
	if r.cfg.StateDir == "" {
		return nil, errors.New("a write needs a state directory: configure one")
	}
	base := r.lockBase(c.Lock)
	if err := os.MkdirAll(filepath.Dir(base), 0o700); err != nil {
		return nil, fmt.Errorf("create state directory: %w", err)
	}
	f, err := os.OpenFile(base+lockSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	// A WriteRunning, of this process or another, holds the lock of a write that just ended for an instant. So does a process that was forked
	// during the write: its parent goes on before the kernel closes the child's files (fs/exec.c, begin_new_exec), which takes long on a
	// busy machine. Only what the tool left behind holds it longer.
	const attempts, afterEnd, pause = 20, 1000, 5 * time.Millisecond
	for attempt := 1; ; attempt++ {
		if err = tryLock(f); !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		isOver := attempt >= attempts && (ctx.Err() != nil || !hasEnded(base))
		if isOver || attempt >= afterEnd {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done(): // the last word is the lock's
		}
	}
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = fmt.Errorf("%w%s", ErrBusy, r.describeHolder(c.Lock))
	default:
		err = fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil, errors.Join(err, f.Close())
}

// hasEnded reports whether the tool of the last write is known to have ended.
func hasEnded(base string) bool {
	w, err := readRecord(base)
	return err == nil && w != nil && w.Ended != nil
}

func tryLock(f *os.File) error {
	defer withoutForks()()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// withoutForks waits until no process that this one forks is between its birth and the call of its own program, and lets none be born until
// the function that it returns is called. Until then such a process holds every file that is open here, also the lock of a write
// that has ended, and on a busy machine for long. It holds them a little longer still, where only patience helps: see acquire.
func withoutForks() (end func()) {
	syscall.ForkLock.RLock()
	return syscall.ForkLock.RUnlock
}

func (r *ExecRunner) lockBase(lock string) string {
	sum := sha256.Sum256([]byte(lock))
	return filepath.Join(r.cfg.StateDir, "run", hex.EncodeToString(sum[:16]))
}

// describeHolder says who holds the lock, as far as that was recorded.
func (r *ExecRunner) describeHolder(lock string) string {
	w, err := r.Writing(lock)
	if err != nil || w == nil || w.Argv == nil {
		return ""
	}
	return ": " + w.describe()
}
