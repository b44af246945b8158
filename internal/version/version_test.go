package version_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/version"
)

func TestMajor(t *testing.T) {
	for v, want := range map[string]int{"v1.2.3": 1, "1.2.3": 1, "v0.1.0-dev": 0, "v12.0.0-3-gabcdef0-dirty": 12, "v2.0": 2} {
		major, ok := version.Major(v)
		assert.True(t, ok, v)
		assert.Equal(t, want, major, v)
	}
	for _, v := range []string{"", "v", "dev", "v1", "v.1", "1.", "-1.2", "v+1.2", "abcdef0", "v99999999999999999999.1", "vv1.2"} {
		_, ok := version.Major(v)
		assert.False(t, ok, v)
	}
	_, ok := version.Major(version.Current())
	assert.True(t, ok, "the version of a build that nobody numbered can be compared")
}

// TestLinkerSetsTheVersion proves R002-61.
func TestLinkerSetsTheVersion(t *testing.T) {
	program := filepath.Join(t.TempDir(), "print")
	const flag = "-X github.com/nodefirmware/node-firmware-operator/internal/version.version="
	for _, file := range []string{"Makefile", "Dockerfile.daemon", "Dockerfile.operator"} {
		text, err := os.ReadFile(filepath.Join("..", "..", file))
		require.NoError(t, err)
		assert.Contains(t, string(text), flag, file)
	}
	out, err := exec.Command("go", "build", "-ldflags", flag+"v7.8.9", "-o", program, "./testdata/print").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(program).Output()
	require.NoError(t, err)
	assert.Equal(t, "v7.8.9", string(out))
}
