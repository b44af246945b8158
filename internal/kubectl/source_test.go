package kubectl_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// TestSourceOfFiles: the verb of the daemon's program, without a cluster.
func TestSourceOfFiles(t *testing.T) {
	image, nowhere := filepath.Join("..", "..", "pkg", "imageinfo", "testdata", "fs3.bin"), filepath.Join(t.TempDir(), "none")
	out, said, code := shell(t, nowhere, "source", image, "--url", "https://mirror.example.com/fw/", "--name", "cx6")
	assert.Zero(t, code, said)
	assert.Empty(t, said)
	assert.Contains(t, out, "# Written by kubectl firmware source. ")
	var source v1alpha1.FirmwareSource
	require.NoError(t, yaml.UnmarshalStrict([]byte(out), &source))
	assert.Equal(t, "cx6", source.Name)
	assert.Equal(t, "https://mirror.example.com/fw/fs3.bin", source.Spec.Files[0].URL)

	out, said, code = shell(t, nowhere, "source", image)
	assert.Equal(t, 2, code)
	assert.Contains(t, out, "FILL IN: where the operator fetches the file")
	assert.Equal(t, "Error: describe source: 1 places need a person: fill in what is marked FILL IN, and the source can be applied\n", said)
	for _, args := range [][]string{{"source"}, {"source", nowhere}} {
		out, said, code = shell(t, nowhere, args...)
		assert.Equal(t, 1, code)
		assert.Empty(t, out)
		assert.NotEmpty(t, said)
	}
	require.NoError(t, os.WriteFile(nowhere, nil, 0o600))
	_, said, code = shell(t, nowhere, "source", nowhere)
	assert.Equal(t, 1, code)
	assert.Contains(t, said, "it is empty")
}
