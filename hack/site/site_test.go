package site_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A site has each version that was built into it, with a first page that says what this is, and a search.
func TestSite(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"v9.10.0", "v9.9.0", "v9.11.0-rc.1"} {
		out, err := exec.Command("./build.sh", version, dir, version).CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 3 {
			t.Skip(string(out))
		}
		require.NoError(t, err, string(out))
	}
	has := func(name string, texts ...string) {
		t.Helper()
		page, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		for _, text := range texts {
			assert.Contains(t, string(page), text, name)
		}
	}
	has("index.html", "url=v9.10.0/index.html")
	has("versions.json", `[{"version":"v9.10.0",`, `{"version":"v9.9.0",`)
	has("v9.9.0/index.html", "keeps the firmware of every bare-metal node", "tens to thousands of GPU", `href="quickstart.html"`, `href="concepts/rollouts.html"`)
	has("v9.9.0/kinds/firmwarecatalog.html", "/blob/v9.9.0/api/")
	has("v9.9.0/concepts/transaction.html", `class="mermaid"`, "mermaid.min.js")
	has("v9.9.0/search/search_index.json", "NodeMaintenance")
	_, err := os.Stat(filepath.Join(dir, "v9.9.0", "links_test.go"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}
