package memory_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A program that is relocated at its start has read-only pages that are no copies of its file.
func TestRelocatedProgramLives(t *testing.T) {
	for _, mode := range []string{"exe", "pie"} {
		cmd := exec.Command("go", "run", "-buildmode="+mode, "./testdata/release")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %.500s", mode, out)
		assert.Equal(t, "lives\n", string(out), mode)
	}
}
