package toolcontract

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Absent is the PCI address of a function that no machine has: an address in the last but one domain.
const Absent = "fffe:fe:1f.0"

// World gives placeholders their values:
//
//	{absent}   the PCI address of a device that does not exist
//	{junk}     an image file that is no image, of five bytes
//	{blank}    an image file that is no image, 4 KiB of zeros
//	{missing}  a path where nothing is
//	{out}      a path at which a file can be made
type World struct {
	// dir is the directory of the files as this process sees it, inside as the tool does.
	dir, inside string
	// Recordings is the directory of the recorded answers, relative to the package of the test; "testdata" unless it is set.
	Recordings string
}

// NewWorld makes the files in dir, which the tool sees as inside; with an empty inside it sees it as this process does. A
// tool in a chroot or a container needs dir to be below its root or mounted.
func NewWorld(dir, inside string) (World, error) {
	if inside == "" {
		inside = dir
	}
	for name, content := range map[string][]byte{"junk": []byte("junk\n"), "blank": make([]byte, 4096)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return World{}, fmt.Errorf("make the files of the cases: %w", err)
		}
	}
	return World{dir: dir, inside: inside}, nil
}

var files = []string{"junk", "blank", "missing", "out"}

// expand replaces the placeholders.
func (w World) expand(s string) string {
	s = strings.ReplaceAll(s, "{absent}", Absent)
	for _, name := range files {
		s = strings.ReplaceAll(s, "{"+name+"}", filepath.Join(w.inside, name))
	}
	return s
}

// hide puts the placeholders back, so that texts are equal on all machines.
func (w World) hide(s string) string {
	for _, name := range files {
		s = strings.ReplaceAll(s, filepath.Join(w.inside, name), "{"+name+"}")
	}
	return strings.ReplaceAll(s, Absent, "{absent}")
}

// reset removes what the last command line made.
func (w World) reset() error {
	if err := os.RemoveAll(filepath.Join(w.dir, "out")); err != nil {
		return fmt.Errorf("remove what a tool wrote: %w", err)
	}
	return nil
}
