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
	markdownLink    = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	markdownCode    = regexp.MustCompile("`[^`\n]*`")
	markdownBlock   = regexp.MustCompile("(?s)```.*?```")
	markdownHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	markdownTarget  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	noAnchor        = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// anchors are the fragments that lead to the headings of a page, as GitHub makes them.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range markdownHeading.FindAllStringSubmatch(markdownBlock.ReplaceAllString(text, ""), -1) {
		heading := markdownTarget.ReplaceAllString(m[1], "$1")
		out[strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), ""), " ", "-")] = true
	}
	return out
}

// TestLinks: every relative link of a page leads to a file of this repository, and one with a fragment to a heading of that page.
func TestLinks(t *testing.T) {
	pages, links, fragments := 0, 0, 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.Name() == "node_modules" {
			return filepath.SkipDir
		}
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
			target := path
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(path), m[1])
			}
			_, err := os.Stat(target)
			if !assert.NoError(t, err, "a link of %s", path) || m[2] == "" || filepath.Ext(target) != ".md" {
				continue
			}
			page, err := os.ReadFile(target)
			require.NoError(t, err)
			fragments++
			assert.True(t, anchors(string(page))[m[2]], "%s: %s has no heading #%s", path, target, m[2])
		}
		return nil
	})
	require.NoError(t, err)
	assert.Greater(t, pages, 20)
	assert.Greater(t, links, 50)
	assert.Greater(t, fragments, 50)
}
