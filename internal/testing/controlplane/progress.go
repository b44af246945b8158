package controlplane

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progress shows that a long operation is running: on a terminal in one line that counts the time, elsewhere in a line
// at the beginning and one every half minute.
type progress struct {
	cancel chan struct{}
	done   chan struct{}
}

const (
	terminalInterval = time.Second
	plainInterval    = 30 * time.Second
)

// startProgress starts to show what after the given silence.
func startProgress(w io.Writer, what string, silence time.Duration) *progress {
	p := &progress{cancel: make(chan struct{}), done: make(chan struct{})}
	go p.run(w, what, silence, time.Now())
	return p
}

func (p *progress) run(w io.Writer, what string, silence time.Duration, start time.Time) {
	defer close(p.done)
	interval, format, end := plainInterval, "%s (%s)\n", ""
	if isTerminal(w) {
		interval, format, end = terminalInterval, "\r\033[K%s (%s)", "\r\033[K"
	}
	wait, said := silence, false
	for {
		select {
		case <-p.cancel:
			if said {
				io.WriteString(w, end)
			}
			return
		case <-time.After(wait):
			said, wait = true, interval
			fmt.Fprintf(w, format, what, time.Since(start).Round(time.Second))
		}
	}
}

// stop ends the progress and clears the terminal's line.
func (p *progress) stop() {
	close(p.cancel)
	<-p.done
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
