package driver_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
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
		err := img.Verify()
		require.ErrorIs(t, err, command.ErrImage, name)
		assert.NotErrorAs(t, err, new(*driver.RejectedError), "a changed file says nothing about the image")
	}
}

func TestARejectionCountsOnlyForTheVerifiedImage(t *testing.T) {
	content := []byte("firmware")
	img := driver.Image{Path: filepath.Join(t.TempDir(), "image.bin"), Version: "1", Digest: sha256.Sum256(content), Size: int64(len(content))}
	rejected, other := fmt.Errorf("write drive: %w", driver.Rejectf("damaged")), errors.New("no answer")

	require.NoError(t, os.WriteFile(img.Path, content, 0o600))
	assert.Equal(t, rejected, img.Judge(rejected))
	require.NoError(t, os.WriteFile(img.Path, []byte("f1rmware"), 0o600))
	require.ErrorIs(t, img.Judge(rejected), command.ErrImage)
	assert.NotErrorAs(t, img.Judge(rejected), new(*driver.RejectedError))
	assert.ErrorContains(t, img.Judge(rejected), "write drive", "what the driver said is kept for people")
	assert.Equal(t, other, img.Judge(other))
	assert.NoError(t, img.Judge(nil))
	require.NoError(t, os.Remove(img.Path))
	assert.ErrorIs(t, img.Judge(rejected), command.ErrImage)
}
