package lab

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Screen is a terminal whose last lines are drawn anew when the fleet changes. What is written to it stays above them.
type Screen struct {
	out io.Writer
	// size returns how many characters and lines the terminal has.
	size func() (width, height int, err error)

	mu    sync.Mutex
	drawn int // lines that the next drawing replaces
}

// NewScreen returns the screen of a file that is a terminal, and the file itself where it is none: there a picture is a line for each change.
func NewScreen(out io.Writer) io.Writer {
	f, is := out.(*os.File)
	if !is || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return out
	}
	return &Screen{out: f, size: func() (int, int, error) { return term.GetSize(int(f.Fd())) }}
}

// Write writes lines that stay.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drawn = 0
	return s.out.Write(p)
}

// The control sequences of ECMA-48 that are used: CUU, cursor up, and ED, erase to the end of the page.
const (
	cursorUp  = "\x1b[%dA"
	eraseDown = "\x1b[J"
)

// draw replaces what was drawn last. Lines that do not fit into the terminal are left out, and counted in the last one.
func (s *Screen) draw(lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	width, height, err := s.size()
	if err != nil || width < 1 || height < 2 { // it was closed, or does not say
		width, height = 80, 24
	}
	if room := height - 1; len(lines) > room {
		left := len(lines) - room + 1
		lines = append(lines[:room-1:room-1], fmt.Sprintf("… and %d more", left))
	}
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, cursorUp, s.drawn)
	}
	b.WriteString(eraseDown)
	for _, line := range lines {
		b.WriteString(cut(line, width) + "\n")
	}
	s.drawn = len(lines)
	_, _ = io.WriteString(s.out, b.String())
}

// cut returns a line of at most width characters. All that is drawn takes one column a character.
func cut(line string, width int) string {
	if all := []rune(line); len(all) > width {
		return string(all[:width-1]) + "…"
	}
	return line
}

// bar is a progress bar of a width in characters.
func bar(done, of, width int) string {
	filled := 0
	if of > 0 {
		filled = min(done, of) * width / of
	}
	return strings.Repeat("█", filled) + strings.Repeat("░", width-filled)
}
