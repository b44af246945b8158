package archive_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable/durabletest"
)

// crash is one thing that may happen to an archive with the last known good version 2 in it.
type crash struct {
	prepare func(t *testing.T, s *archive.Store, dir string)
	act     func(ctx context.Context, s *archive.Store) error
	// after holds once act returned nil.
	after func(t *testing.T, s *archive.Store)
}

// unsynced is the file system of this machine where nobody is about to cut the power.
type unsynced struct{ durable.OS }

func (unsynced) SyncFile(string) error { return nil }
func (unsynced) SyncDir(string) error  { return nil }

var crashes = map[string]crash{
	"first one": {
		act:   func(ctx context.Context, s *archive.Store) error { return keepNow(ctx, s, "3") },
		after: func(t *testing.T, s *archive.Store) { assertImage(t, s, "3") },
	},
	"new one, old one goes": {
		prepare: func(t *testing.T, s *archive.Store, _ string) {
			keep(t, s, manifest("1", "b"))
			keep(t, s, manifest("2", "b"))
		},
		act:   func(ctx context.Context, s *archive.Store) error { return keepNow(ctx, s, "3") },
		after: func(t *testing.T, s *archive.Store) { assertImage(t, s, "3") },
	},
	"damaged namesake": {
		prepare: func(t *testing.T, s *archive.Store, dir string) {
			keep(t, s, manifest("2", "b"))
			keep(t, s, manifest("3", "b"))
			require.NoError(t, os.Truncate(filepath.Join(dir, card, "3_b", "image"), 5))
			require.NoError(t, s.Pin(card+"/3_b"))
		},
		act: func(ctx context.Context, s *archive.Store) error { return keepNow(ctx, s, "3") },
		after: func(t *testing.T, s *archive.Store) {
			assertImage(t, s, "3")
			entries, err := s.List()
			require.NoError(t, err)
			assert.True(t, entries[0].Pinned)
		},
	},
	"pin": {
		prepare: func(t *testing.T, s *archive.Store, _ string) { keep(t, s, manifest("2", "b")) },
		act:     func(_ context.Context, s *archive.Store) error { return s.Pin(card + "/2_b") },
		after: func(t *testing.T, s *archive.Store) {
			entries, err := s.List()
			require.NoError(t, err)
			assert.True(t, entries[0].Pinned)
		},
	},
}

func keepNow(ctx context.Context, s *archive.Store, version string) error {
	return s.Keep(ctx, manifest(version, "b"), fill(content(version), nil))
}

// begin is the archive before the crash, on a file system that fails.
func (c crash) begin(t *testing.T) (s *archive.Store, fsys *durabletest.FS) {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "archive")
	if c.prepare != nil {
		c.prepare(t, archive.New(dir, unsynced{}), dir)
	}
	fsys, err := durabletest.New(root)
	require.NoError(t, err)
	return archive.New(dir, fsys), fsys
}

// check asserts what holds whatever happened: no entry is half, what was good is good, and the work can be done again.
func (c crash) check(t *testing.T, root string, done bool) {
	t.Helper()
	s := archive.New(filepath.Join(root, "archive"), unsynced{})
	require.NoError(t, s.Sweep())
	if c.prepare != nil {
		assertImage(t, s, "2")
	}
	if done {
		c.after(t, s)
	}
	require.NoError(t, c.act(t.Context(), s))
	c.after(t, s)
}

// TestPowerCutAnywhereLeavesTheLastKnownGood proves R002-58.
func TestPowerCutAnywhereLeavesTheLastKnownGood(t *testing.T) { // F2
	for name, c := range crashes {
		t.Run(name, func(t *testing.T) {
			s, fsys := c.begin(t)
			require.NoError(t, c.act(t.Context(), s))
			operations := fsys.Operations()
			for at := range operations + 1 {
				s, fsys := c.begin(t)
				fsys.CutAt(at)
				err := c.act(t.Context(), s)
				random := rand.New(rand.NewPCG(uint64(at), 7))
				for range 5 {
					to := t.TempDir()
					require.NoError(t, fsys.Cut(random, to))
					c.check(t, to, err == nil)
				}
			}
		})
	}
}

func TestFailureAnywhereLeavesTheLastKnownGood(t *testing.T) { // F5
	for name, c := range crashes {
		t.Run(name, func(t *testing.T) {
			s, fsys := c.begin(t)
			require.NoError(t, c.act(t.Context(), s))
			for at := range fsys.Operations() {
				root := t.TempDir()
				dir := filepath.Join(root, "archive")
				if c.prepare != nil {
					c.prepare(t, archive.New(dir, unsynced{}), dir)
				}
				fsys, err := durabletest.New(root)
				require.NoError(t, err)
				fsys.FailAt(at, syscall.EIO)
				err = c.act(t.Context(), archive.New(dir, fsys))
				c.check(t, root, err == nil)
			}
		})
	}
}

func TestFullOrReadOnlyDiskIsAnErrorAndLosesNothing(t *testing.T) { // F5
	c := crashes["new one, old one goes"]
	for room := range int64(600) {
		if room%37 != 0 {
			continue
		}
		s, fsys := c.begin(t)
		fsys.Full(room)
		err := c.act(t.Context(), s)
		if err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			assert.Equal(t, []string{"2_b", "1_b"}, names(t, s), "nothing goes for what did not come")
		}
		assertImage(t, s, "2")
	}
	s, fsys := c.begin(t)
	fsys.ReadOnly()
	require.ErrorIs(t, c.act(t.Context(), s), syscall.EROFS)
	assertImage(t, s, "2")
}

// TestAnotherFileSystemBelowTheArchiveIsRefused proves R002-29.
func TestAnotherFileSystemBelowTheArchiveIsRefused(t *testing.T) {
	c := crashes["new one, old one goes"]
	s, fsys := c.begin(t)
	require.NoError(t, c.act(t.Context(), s))
	var refusals []string
	for at := range fsys.Operations() {
		s, fsys := c.begin(t)
		fsys.FailAt(at, syscall.EXDEV)
		if err := c.act(t.Context(), s); err != nil {
			refusals = append(refusals, err.Error())
		}
		assertImage(t, s, "2")
	}
	assert.Contains(t, strings.Join(refusals, "\n"), "the archive must be on one file system")
}
