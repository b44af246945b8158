package images_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/images"
)

const mebibyte = 1 << 20

// put stores what stands for an image that was last used some time ago, of one mebibyte.
func (s *scene) put(t *testing.T, name string, age time.Duration) string {
	t.Helper()
	path := filepath.Join(s.config.Dir, strings.Repeat(name, 64))
	require.NoError(t, os.WriteFile(path, make([]byte, mebibyte), 0o600))
	when := time.Now().Add(-age)
	require.NoError(t, os.Chtimes(path, when, when))
	return path
}

// disk makes the file system have this many mebibytes, less those of the images.
func disk(mebibytes int64) func(*images.Config) {
	return func(c *images.Config) {
		c.Free = func(dir string) (int64, error) {
			entries, err := os.ReadDir(dir)
			free := mebibytes * mebibyte
			for _, e := range entries {
				info, err := e.Info()
				if err != nil {
					return 0, err
				}
				free -= info.Size()
			}
			return free, err
		}
	}
}

func requireNothingLeft(t *testing.T, s *scene) {
	t.Helper()
	d := digest(content)
	for _, suffix := range []string{"", ".partial"} {
		assert.NoFileExists(t, filepath.Join(s.config.Dir, hex.EncodeToString(d[:])+suffix), "a fetch that cannot end keeps no room")
	}
}

// The node's own work needs room too: its journal, the archive of what runs, and the kubelet, which evicts pods from a full node.
func TestAFetchDoesNotFillTheDisk(t *testing.T) {
	s := newScene(t, serve(content), disk(64))
	_, _, err := s.Fetch(t.Context(), digest(content))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NotErrorIs(t, err, images.ErrUnavailable, "the image server has it")
	for _, says := range []string{s.config.Dir + " is full", "was not written", "make room there, and it is fetched again", "64 MiB are left"} {
		assert.ErrorContains(t, err, says)
	}
	assert.Len(t, s.shelf.tokens, 1, "who asks decides when to try again")
	assert.Zero(t, s.waits)
	requireNothingLeft(t, s)
}

func TestFetchesOnceThereIsRoom(t *testing.T) {
	room := int64(0)
	s := newScene(t, serve(content), func(c *images.Config) { c.Free = func(string) (int64, error) { return room, nil } })
	_, _, err := s.Fetch(t.Context(), digest(content))
	require.ErrorIs(t, err, syscall.ENOSPC)
	room = 65 * mebibyte
	_, _, err = s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
}

func TestOnlyWhatIsMissingNeedsRoom(t *testing.T) {
	s := newScene(t, serve(content), func(c *images.Config) {
		c.Free = func(string) (int64, error) { return 64*mebibyte + int64(len(content))/2, nil }
	})
	_, _, err := s.Fetch(t.Context(), digest(content))
	require.ErrorIs(t, err, syscall.ENOSPC)
	d := digest(content)
	require.NoError(t, os.WriteFile(filepath.Join(s.config.Dir, hex.EncodeToString(d[:])+".partial"), content[:len(content)/2], 0o600))
	_, _, err = s.Fetch(t.Context(), d)
	require.NoError(t, err)
}

// The tool that writes a large image gets a copy of it, which is made beside the image.
func TestCopyOfLargeImageNeedsRoom(t *testing.T) {
	room := int64(65 * mebibyte)
	s := newScene(t, serve(content), func(c *images.Config) {
		c.MaxInMemory = int64(len(content)) - 1
		c.Free = func(string) (int64, error) { return room - 1, nil }
	})
	_, _, err := s.Fetch(t.Context(), digest(content))
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.ErrorContains(t, err, "64 MiB are left and 65 MiB needed, of which 64 MiB stay free for the node and 1 MiB are for the copy of the image that a tool reads")
	requireNothingLeft(t, s)
	room++
	_, _, err = s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
}

func TestUnusedImagesMakeRoomForTheCopyOfOneThatIsHere(t *testing.T) {
	s := newScene(t, serve(content))
	_, _, err := s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
	oldest, old := s.put(t, "a", 4*time.Hour), s.put(t, "b", 2*time.Hour)
	disk(64 + 2)(&s.config)
	s.config.MaxInMemory = 1
	s.Store, err = images.Open(s.config)
	require.NoError(t, err)
	_, _, err = s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
	assert.NoFileExists(t, oldest)
	assert.FileExists(t, old, "no more than is needed")
}

func TestUnusedImagesMakeDiskRoom(t *testing.T) {
	s := newScene(t, serve(content), disk(64+3))
	oldest, older, old, used := s.put(t, "a", 4*time.Hour), s.put(t, "b", 3*time.Hour), s.put(t, "c", 2*time.Hour), s.put(t, "d", time.Minute)
	_, _, err := s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
	assert.NoFileExists(t, oldest)
	assert.NoFileExists(t, older)
	assert.FileExists(t, old, "no more than is needed")
	assert.FileExists(t, used)
}

func TestImagesOfJobsMakeNoRoom(t *testing.T) {
	s := newScene(t, serve(content), disk(64+1))
	used := s.put(t, "a", time.Minute)
	_, _, err := s.Fetch(t.Context(), digest(content))
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.FileExists(t, used)
	requireNothingLeft(t, s)
}

// Somebody else may fill the disk after the look at it, or a quota may end before the disk does.
func TestDiskFillsUpMidway(t *testing.T) {
	for name, errno := range map[string]syscall.Errno{"full": syscall.ENOSPC, "quota": syscall.EDQUOT} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, serve(content))
			s.Quota(int64(len(content))/2, errno)
			_, _, err := s.Fetch(t.Context(), digest(content))
			require.ErrorIs(t, err, errno)
			assert.ErrorContains(t, err, "make room there")
			assert.Zero(t, s.waits)
			requireNothingLeft(t, s)
		})
	}
	t.Run("with an unused image to remove", func(t *testing.T) {
		s := newScene(t, serve(content))
		unused := s.put(t, "a", 2*time.Hour)
		s.Quota(int64(len(content))/2, syscall.ENOSPC)
		_, _, err := s.Fetch(t.Context(), digest(content))
		require.ErrorIs(t, err, syscall.ENOSPC)
		assert.NoFileExists(t, unused)
		assert.Len(t, s.shelf.tokens, 2, "once more with the room of that image")
		requireNothingLeft(t, s)
	})
}

// A member of a signed archive is written beside it. A disk that it fills is full for the journal too.
func TestAMemberOfAnArchiveThatDoesNotFitKeepsNoRoom(t *testing.T) {
	v, o := newVendor(t), newOperator()
	archive := zipOf(t, map[string][]byte{memberPath: content})
	o.holds(archive, content, v.sign(t, archive))
	s := newGuarded(t, o, v.public)
	s.Quota(int64(len(archive)+len(content)/2), syscall.ENOSPC)
	_, _, err := s.Fetch(t.Context(), digest(content))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "make room there")
	requireNothingLeft(t, s)

	full := newGuarded(t, o, v.public)
	config, left := full.config, int64(1<<40)
	config.Free = func(string) (int64, error) { return left, nil }
	full.Store, err = images.Open(config)
	require.NoError(t, err)
	_, _, err = full.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
	left = 0 // somebody else filled the disk in the middle of the job
	_, _, err = full.Fetch(t.Context(), digest(content))
	require.NoError(t, err, "what is here needs no room")
}

func TestADiskThatIsReadOnlyIsNotAskedAgainAndAgain(t *testing.T) {
	s := newScene(t, serve(content))
	s.Quota(0, syscall.EROFS)
	_, _, err := s.Fetch(t.Context(), digest(content))
	require.ErrorIs(t, err, syscall.EROFS)
	assert.ErrorContains(t, err, "is read-only")
	assert.Len(t, s.shelf.tokens, 1)
}

func TestADiskThatDoesNotSayWhatItHasLeftIsWrittenTo(t *testing.T) {
	s := newScene(t, serve(content), func(c *images.Config) { c.Free = func(string) (int64, error) { return 0, syscall.ENOSYS } })
	_, _, err := s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
}
