package devlink

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newSearchPath is a parameter with a value, and an image in a directory of its own.
func newSearchPath(t *testing.T, value string) (p searchPath, image string, said *[]string) {
	t.Helper()
	said = &[]string{}
	p = searchPath{file: filepath.Join(t.TempDir(), "path"), say: func(format string, values ...any) {
		*said = append(*said, fmt.Sprintf(format, values...))
	}}
	require.NoError(t, os.WriteFile(p.file, []byte(value+"\n"), 0o600))
	image = filepath.Join(t.TempDir(), "fw.bin")
	require.NoError(t, os.WriteFile(image, []byte("image"), 0o600))
	return p, image, said
}

func TestOffersImageUnderOwnName(t *testing.T) {
	p, image, _ := newSearchPath(t, "")
	used := map[string]bool{"fw.bin": true}
	for range 2 {
		require.NoError(t, p.offer(image, func(name string) error {
			assert.False(t, used[name], name)
			used[name] = true
			dir, err := p.read()
			require.NoError(t, err)
			assert.Equal(t, filepath.Dir(image), dir)
			content, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			assert.Equal(t, "image", string(content))
			return nil
		}))
	}
}

// nvmupdate, for one, sets the parameter, too.
func TestLeavesForeignValueAlone(t *testing.T) {
	p, image, said := newSearchPath(t, "/before")
	require.NoError(t, p.offer(image, func(string) error { return os.WriteFile(p.file, []byte("/nvmupdate\n"), 0o600) }))
	now, err := p.read()
	require.NoError(t, err)
	assert.Equal(t, "/nvmupdate", now)
	assert.Contains(t, fmt.Sprint(*said), "is not changed")
	assertOnly(t, filepath.Dir(image), "fw.bin")
}

// Who set the parameter to the directory of the images for good gets to keep that.
func TestKeepsRightValue(t *testing.T) {
	p, image, _ := newSearchPath(t, "")
	require.NoError(t, os.WriteFile(p.file, []byte(filepath.Dir(image)+"\n"), 0o600))
	require.NoError(t, p.offer(image, func(string) error { return nil }))
	now, err := p.read()
	require.NoError(t, err)
	assert.Equal(t, filepath.Dir(image), now)
}

func TestTheNoteOfAFlashThatWasCutOffIsBelievedOnce(t *testing.T) {
	for name, left := range map[string]string{"in the same directory": "", "in another directory": t.TempDir()} {
		p, image, said := newSearchPath(t, "")
		if left == "" {
			left = filepath.Dir(image)
		}
		require.NoError(t, writeNote(left, "/before"), name)
		require.NoError(t, p.set(left), name)
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(image), linkPrefix+"LEFT"), nil, 0o600))
		require.NoError(t, p.offer(image, func(string) error { return nil }), name)
		now, err := p.read()
		require.NoError(t, err)
		assert.Equal(t, "/before", now, name)
		assert.Contains(t, fmt.Sprint(*said), `was "/before"`, name)
		assertOnly(t, filepath.Dir(image), "fw.bin")
		assert.NoFileExists(t, filepath.Join(left, noteName), name)
	}
}

// After a reboot the parameter is what it is at every boot, and the note is of another time.
func TestIgnoresNoteOfOtherValue(t *testing.T) {
	p, image, said := newSearchPath(t, "/at-boot")
	require.NoError(t, writeNote(filepath.Dir(image), "/before"))
	require.NoError(t, p.offer(image, func(string) error { return nil }))
	now, err := p.read()
	require.NoError(t, err)
	assert.Equal(t, "/at-boot", now)
	assert.Empty(t, *said)
}

func TestOneImageIsOfferedAtATime(t *testing.T) {
	p, image, _ := newSearchPath(t, "/before")
	other := filepath.Join(t.TempDir(), "fw.bin")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	waits, done := make(chan string, 1), make(chan error, 1)
	second := searchPath{file: p.file, say: func(format string, _ ...any) { waits <- format }}
	require.NoError(t, p.offer(image, func(string) error {
		go func() { done <- second.offer(other, func(string) error { return nil }) }()
		assert.Contains(t, <-waits, "waiting for another flash")
		now, err := p.read()
		assert.Equal(t, filepath.Dir(image), now)
		return err
	}))
	require.NoError(t, <-done)
	now, err := p.read()
	require.NoError(t, err)
	assert.Equal(t, "/before", now)
}

func TestMissingParameterIsAnError(t *testing.T) {
	p, image, _ := newSearchPath(t, "")
	require.NoError(t, os.Remove(p.file))
	err := p.offer(image, func(string) error {
		assert.Fail(t, "flashed")
		return nil
	})
	require.ErrorIs(t, err, os.ErrNotExist)
	assertOnly(t, filepath.Dir(image), "fw.bin")
}
