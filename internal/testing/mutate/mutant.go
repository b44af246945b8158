package mutate

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
)

// Mutant is one deliberate defect: one place of one file that says something else.
type Mutant struct {
	// What the product does wrong with the defect, as a short sentence.
	What string
	// File is relative to the root of the repository, with slashes. It is a Go file or a file that Go embeds.
	File string
	// Old occurs exactly once in the file and becomes New.
	Old, New string
	// Copies is how often Old occurs, and becomes New, where it is not once: a definition has its schema once for each version.
	Copies int
	// Packages whose tests must notice, relative to the root; empty for the package of the file.
	Packages []string
	// Run selects the tests, as go test -run does; empty for all.
	Run string
}

// apply returns the content of the file with the defect.
func (m Mutant) apply(root string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return nil, fmt.Errorf("read file of mutant %q: %w", m.What, err)
	}
	if n := bytes.Count(content, []byte(m.Old)); n != max(1, m.Copies) {
		return nil, fmt.Errorf("mutant %q: its old text occurs %d times in %s and must occur %d times; "+
			"write it anew for the code as it is now, in internal/testing/mutate", m.What, n, m.File, max(1, m.Copies))
	}
	return bytes.ReplaceAll(content, []byte(m.Old), []byte(m.New)), nil
}

func (m Mutant) packages() []string {
	if len(m.Packages) == 0 {
		return []string{"./" + path.Dir(m.File)}
	}
	out := make([]string, 0, len(m.Packages))
	for _, p := range m.Packages {
		out = append(out, "./"+p)
	}
	return out
}
