package driver_test

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
)

func TestVerifyReadsTheFileAgain(t *testing.T) {
	content := []byte("firmware")
	path := filepath.Join(t.TempDir(), "image.bin")
	img := driver.Image{Path: path, Version: "1", Digest: sha256.Sum256(content), Size: int64(len(content))}

	err := img.Verify()
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.NotErrorAs(t, err, new(*driver.RejectedError), "a missing file says nothing about the image")

	require.NoError(t, os.WriteFile(path, content, 0o600))
	require.NoError(t, img.Verify())
	for name, changed := range map[string]string{"shorter": "firm", "longer": "firmware!", "other bytes": "firmwarf"} {
		require.NoError(t, os.WriteFile(path, []byte(changed), 0o600))
		assert.ErrorAs(t, img.Verify(), new(*driver.RejectedError), name)
	}
}
