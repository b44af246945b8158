package controlplane

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// lifeline is a shell that waits for this process to end, however it ends, and then kills the rest of the control
// plane. It holds the reading end of a pipe whose writing end only this process has.
type lifeline struct {
	pipe io.Closer
	// ended is closed when the shell has ended, with err.
	ended chan struct{}
	err   error
}

// watch waits for the end of its standard input. After an orderly end no process is recorded in $1/pids. The directory
// is removed only if it is temporary ($2).
const watch = `
cat >/dev/null
for f in "$1"/pids/*; do
	[ -f "$f" ] && kill -9 "$(cat "$f")" 2>/dev/null
done
[ "$2" = temporary ] && rm -rf "$1"
exit 0
`

func startLifeline(d *directory) (*lifeline, error) {
	kind := "kept"
	if d.temporary {
		kind = "temporary"
	}
	cmd := exec.Command("/bin/sh", "-c", watch, "controlplane-lifeline", d.path, kind)
	// Its own process group keeps it from being interrupted with this process from a terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe to the control plane's watcher: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the control plane's watcher: %w", err)
	}
	l := &lifeline{pipe: pipe, ended: make(chan struct{})}
	// Waiting also keeps the pipe from being garbage-collected, and thereby closed, when the control plane is no longer
	// referenced.
	go func() {
		defer close(l.ended)
		l.err = cmd.Wait()
	}()
	return l, nil
}

// release ends the watcher after everything else.
func (l *lifeline) release() error {
	l.pipe.Close()
	<-l.ended
	if l.err != nil {
		return fmt.Errorf("end the control plane's watcher: %w", l.err)
	}
	return nil
}
