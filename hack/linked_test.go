package hack_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNoProgramServesGRPCTraces: golang.org/x/net/trace adds pages to the default web server of the process, and the templates of
// these pages make the linker keep every method of every type, which are 13 MB in the daemon. A tag leaves it out of gRPC.
func TestNoProgramServesGRPCTraces(t *testing.T) {
	const tag = "-tags grpcnotrace"
	for _, name := range []string{"Makefile", "Dockerfile.daemon", "Dockerfile.operator"} {
		text, err := os.ReadFile(filepath.Join("..", name))
		require.NoError(t, err)
		assert.Contains(t, string(text), tag, name)
	}
	out, err := exec.Command("go", "list", "-deps", "-tags", "grpcnotrace", "../cmd/firmware-daemon", "../cmd/firmware-operator").Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "google.golang.org/grpc\n")
	assert.NotContains(t, string(out), "golang.org/x/net/trace\n")
}
