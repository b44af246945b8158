package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	// inhibitTimeout is how long a host may take to confirm the inhibitor: its systemd, its login manager and their bus may all have
	// to be loaded from a slow disk. The write is kept waiting meanwhile.
	inhibitTimeout = 30 * time.Second
	// releaseTimeout is how long the end of the inhibitor is waited for.
	releaseTimeout = 5 * time.Second
)

// inhibition is a command that keeps the host from shutting down for as long as it runs. It copies its input to its
// output: one byte sent and read back proves that it holds, and it ends at the end of its input. The tool inherits the
// other end, so that it holds exactly as long as the worker, the tool or anything the tool left behind lives, whoever
// is killed.
type inhibition struct {
	cmd   *exec.Cmd
	input *os.File
	gone  chan struct{}
}

// newInhibition starts the command and waits until it holds. It returns nil without an error when there is no command.
func newInhibition(argv []string) (*inhibition, error) {
	if len(argv) == 0 {
		return nil, nil
	}
	in, input, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("inhibit shutdown: %w", err)
	}
	output, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("inhibit shutdown: %w", err), in.Close(), input.Close())
	}
	defer output.Close()
	stderr := &tailBuffer{}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = "/", os.Environ() //nolint:forbidigo // the runner has set the worker's environment for tools
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, stderr
	cmd.WaitDelay = waitDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	_, _ = in.Close(), out.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("inhibit shutdown: %w", err), input.Close())
	}
	h := &inhibition{cmd: cmd, input: input, gone: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // that it ended says it all
		close(h.gone)
	}()
	if err := h.echo(output); err != nil {
		h.end()
		return nil, fmt.Errorf("inhibit shutdown: %w%s", err, stderr.after(": "))
	}
	return h, nil
}

// echo proves that the command runs and holds.
func (h *inhibition) echo(output *os.File) error {
	if err := output.SetReadDeadline(time.Now().Add(inhibitTimeout)); err != nil {
		return err
	}
	if _, err := h.input.Write([]byte{'\n'}); err != nil {
		return err
	}
	if _, err := io.ReadFull(output, make([]byte, 1)); err != nil {
		return fmt.Errorf("wait until the inhibitor holds: %w", err)
	}
	return nil
}

// files are what the tool has to inherit.
func (h *inhibition) files() []*os.File {
	if h == nil {
		return nil
	}
	return []*os.File{h.input}
}

// release closes its end, and waits until the command has ended, unless a process that the tool left behind still holds it.
func (h *inhibition) release() error {
	if h == nil {
		return nil
	}
	err := h.input.Close()
	select {
	case <-h.gone:
	case <-time.After(releaseTimeout):
	}
	return err
}

// end kills a command that does not inhibit. That is safe, because the command changes nothing.
func (h *inhibition) end() {
	_ = h.input.Close()
	select {
	case <-h.gone:
	default:
		_ = syscall.Kill(-h.cmd.Process.Pid, syscall.SIGKILL)
		<-h.gone
	}
}

// tailBuffer keeps the last few hundred bytes.
type tailBuffer struct{ data []byte }

// Write takes everything.
func (b *tailBuffer) Write(p []byte) (int, error) {
	const limit = 512
	b.data = append(b.data, p...)
	b.data = b.data[max(0, len(b.data)-limit):]
	return len(p), nil
}

// after is the separator followed by what was written, or empty if nothing was. The writer must have ended.
func (b *tailBuffer) after(separator string) string {
	text := bytes.TrimSpace(b.data)
	if len(text) == 0 {
		return ""
	}
	return separator + strings.ToValidUTF8(string(text), "?")
}
