package guest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWrittenImageRunsAtOnceOrAfterTheNextBoot(t *testing.T) {
	dir := t.TempDir()
	image := filepath.Join(dir, "image")
	require.NoError(t, os.WriteFile(image, []byte("2.0.0\n0\n"), 0o600))
	d := flashDevice{filepath.Join(dir, "device"), "boot-1"}
	s, err := d.read()
	require.NoError(t, err)
	assert.Equal(t, FlashState{Running: factoryVersion, Stored: factoryVersion, BootID: "boot-1"}, s)

	require.NoError(t, d.write(image, false))
	s, err = d.read()
	require.NoError(t, err)
	assert.Equal(t, FlashState{Running: factoryVersion, Stored: "2.0.0", BootID: "boot-1", Begun: 1, Ended: 1}, s)
	d.boot = "boot-2"
	s, err = d.read()
	require.NoError(t, err)
	assert.Equal(t, "2.0.0", s.Running)

	require.NoError(t, os.WriteFile(image, []byte("3.0.0\n0\n"), 0o600))
	require.NoError(t, d.write(image, true))
	s, err = d.read()
	require.NoError(t, err)
	assert.Equal(t, FlashState{Running: "3.0.0", Stored: "3.0.0", BootID: "boot-2", Begun: 2, Ended: 2}, s)
}

func TestFlashToolRefusesWhatItDoesNotUnderstand(t *testing.T) {
	dir := t.TempDir()
	image := filepath.Join(dir, "image")
	require.NoError(t, os.WriteFile(image, []byte("no seconds\n"), 0o600))
	d := flashDevice{filepath.Join(dir, "device"), "boot-1"}
	require.ErrorContains(t, d.write(image, true), "read image")
	s, err := d.read()
	require.NoError(t, err)
	assert.Zero(t, s.Begun, "an image that is none is not written")

	require.ErrorContains(t, flashTool([]string{"-d", "../elsewhere", "show"}), "is not a device")
	require.ErrorContains(t, flashTool([]string{"-d", "eth0", "erase"}), "unknown command")
	require.NoError(t, d.save(FlashState{}))
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "state.json"), []byte("{"), 0o600))
	_, err = d.read()
	require.Error(t, err)
}
