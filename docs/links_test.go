package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)\s]*)?\)`)
	markdownCode = regexp.MustCompile("`[^`\n]*`")
)

// TestLinks: every relative link of a page leads to a file of this repository.
func TestLinks(t *testing.T) {
	pages, links := 0, 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		pages++
		for _, m := range markdownLink.FindAllStringSubmatch(markdownCode.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			_, err := os.Stat(filepath.Join(filepath.Dir(path), m[1]))
			assert.NoError(t, err, "a link of %s", path)
		}
		return nil
	})
	require.NoError(t, err)
	assert.Greater(t, pages, 20)
	assert.Greater(t, links, 50)
}
