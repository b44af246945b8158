package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// TestEveryReasonHasAWayOut: each reason of the API is in the table, once for each kind; each row is of a reason; and each command is typed
// by a test, from the message of an object. The tests of a package fail unless they typed the rows of its list (apitest.Main).
func TestEveryReasonHasAWayOut(t *testing.T) {
	known := map[string]bool{}
	for _, value := range reasonsOf(t) {
		known[value] = true
	}
	typed := map[string]bool{}
	require.NoError(t, filepath.WalkDir("../internal", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(filepath.ToSlash(path), "/"+apitest.TypedFile) {
			return err
		}
		text, err := os.ReadFile(path)
		for key := range strings.Lines(string(text)) {
			typed[strings.TrimSuffix(key, "\n")] = true
		}
		return err
	}))
	rows, explained := map[string]bool{}, map[string]bool{}
	for _, w := range apitest.WaysOut(t, "..") {
		key := w.Key()
		assert.FileExists(t, "kinds/"+strings.ToLower(w.Kind)+".md")
		assert.True(t, known[w.Reason], "%s is no reason of the API", w.Reason)
		assert.False(t, rows[key], "%s is there twice", key)
		rows[key], explained[w.Reason] = true, true
		assert.Equal(t, w.Command != "", typed[key], "%s: a row has a command if and only if a test types it: %s", key, w.Command)
	}
	for key := range typed {
		assert.True(t, rows[key], "%s is typed and in no row", key)
	}
	for value := range known {
		assert.True(t, explained[value], "%s is in no row", value)
	}
}
