package golden

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Update is the environment variable that makes Equal write the files instead of comparing with them.
const Update = "UPDATE_GOLDEN"

// Equal requires got to be what the file holds. The file is named relative to the test's package.
func Equal(t testing.TB, file, got string) {
	t.Helper()
	if os.Getenv(Update) != "" {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "run with %s=1 to write it", Update)
	assert.Equal(t, string(want), got, "differs from %s; run with %s=1 if the new text is right", file, Update)
}
