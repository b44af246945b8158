package state_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable/durabletest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

const today = "v1.4.2"

func open(t *testing.T, dir, daemon string) *state.State {
	t.Helper()
	s, err := state.Open(dir, state.Options{Daemon: daemon})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// used is a directory that a daemon has worked with, closed again.
func used(t *testing.T, daemon string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "state")
	s := open(t, dir, daemon)
	require.NoError(t, s.Journal.Save(journal.Job{Name: "a", UID: "uid-a"}, journal.Device{UniqueID: "u", LastGood: "1"}))
	require.NoError(t, s.Close())
	return dir
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
}

func stamp(t *testing.T, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "version"))
	require.NoError(t, err)
	return string(raw)
}

// tree is all of a directory but the lock: names with content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "lock" {
			return err
		}
		raw, err := os.ReadFile(path)
		out[path] = string(raw)
		return err
	}))
	return out
}

// TestFirstRunMakesTheDirectory proves R002-37, R002-41.
func TestFirstRunMakesTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "var", "state")
	s := open(t, dir, today)
	assert.True(t, s.FirstRun)
	assert.Nil(t, s.Before)
	assert.Empty(t, s.Leftover)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	assert.JSONEq(t, `{"schema":2,"daemon":"v1.4.2"}`, stamp(t, dir))
	require.NoError(t, s.Close())
	s = open(t, dir, "v1.5.0")
	assert.False(t, s.FirstRun)
	assert.Equal(t, &state.Stamp{Schema: 2, Daemon: today}, s.Before)
	assert.JSONEq(t, `{"schema":2,"daemon":"v1.5.0"}`, stamp(t, dir), "the last one that opened it")
}

// TestIgnoresLocksAndTempFiles proves R002-40.
func TestIgnoresLocksAndTempFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "lock", "")
	s := open(t, dir, today)
	assert.True(t, s.FirstRun)
	assert.Empty(t, s.Leftover)
}

// TestHalfMadeFilesArePutAside proves R002-7.
func TestHalfMadeFilesArePutAside(t *testing.T) {
	for name, half := range map[string]string{
		"empty": "", "short": "abc", "zeros": strings.Repeat("\x00", 1<<14), "garbage": strings.Repeat("garbage!", 1<<12),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "journal.db", half)
			write(t, dir, ".tmp-version", `{"sch`)
			write(t, filepath.Join(dir, "leftover-3"), "journal.db", "an earlier one")
			s := open(t, dir, today)
			assert.True(t, s.FirstRun)
			assert.Equal(t, "leftover-4", s.Leftover)
			require.NoError(t, s.Journal.Save(journal.Job{Name: "a", UID: "a"}))
			files := tree(t, dir)
			assert.Equal(t, half, files[filepath.Join(dir, "leftover-4", "journal.db")], "nothing is deleted")
			assert.Equal(t, `{"sch`, files[filepath.Join(dir, "leftover-4", ".tmp-version")])
			assert.Equal(t, "an earlier one", files[filepath.Join(dir, "leftover-3", "journal.db")])
		})
	}
}

// A first start that is cut while bbolt makes its file leaves any part of it.
// It proves R002-7.
func TestTornFirstStartIsRepeated(t *testing.T) {
	made := filepath.Join(t.TempDir(), "state")
	require.NoError(t, open(t, made, today).Close())
	whole, err := os.ReadFile(filepath.Join(made, "journal.db"))
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		torn := strings.Clone(string(whole[:random.IntN(len(whole)+1)]))
		b := []byte(torn)
		for at := 0; at < len(b); at += 512 {
			if random.IntN(3) == 0 {
				clear(b[at:min(at+512, len(b))])
			}
		}
		dir := t.TempDir()
		write(t, dir, "journal.db", string(b))
		s := open(t, dir, today)
		require.NoError(t, s.Journal.Save(journal.Job{Name: "a", UID: "a"}))
		require.NoError(t, s.Close())
	}
}

func TestDamagedJournalOfAWorkingDaemonIsNeverPutAside(t *testing.T) { // I7
	for name, damage := range map[string]func(t *testing.T, dir string){
		"empty": func(t *testing.T, dir string) { write(t, dir, "journal.db", "") },
		"zeros": func(t *testing.T, dir string) { write(t, dir, "journal.db", strings.Repeat("\x00", 1<<14)) },
		"pages": func(t *testing.T, dir string) {
			path := filepath.Join(dir, "journal.db")
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			clear(raw[2*os.Getpagesize():])
			require.NoError(t, os.WriteFile(path, raw, 0o600))
		},
		"short": func(t *testing.T, dir string) {
			require.NoError(t, os.Truncate(filepath.Join(dir, "journal.db"), int64(2*os.Getpagesize())))
		},
		"empty, stamp gone, archive there": func(t *testing.T, dir string) {
			write(t, dir, "journal.db", "")
			require.NoError(t, os.Remove(filepath.Join(dir, "version")))
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "archive", "nic"), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := used(t, today)
			damage(t, dir)
			before := tree(t, dir)
			_, err := state.Open(dir, state.Options{Daemon: today})
			require.ErrorIs(t, err, journal.ErrDamaged)
			assert.Equal(t, before, tree(t, dir))
		})
	}
}

// TestRefusesNewerStateUntouched proves R002-10, R002-63, R002-64.
func TestRefusesNewerStateUntouched(t *testing.T) {
	for name, content := range map[string]string{
		"schema":             `{"schema":3,"daemon":"v1.4.2"}`,
		"schema of another":  `{"schema":3,"daemon":"whatever"}`,
		"enormous schema":    `{"schema":99999999999999999999999999}`,
		"major of daemon":    `{"schema":2,"daemon":"v2.0.0"}`,
		"schema, more to it": `{"schema":7,"newField":{"a":[1]},"daemon":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := used(t, today)
			write(t, dir, "version", content)
			write(t, dir, ".tmp-something", "x")
			before := tree(t, dir)
			_, err := state.Open(dir, state.Options{Daemon: today})
			require.Error(t, err)
			if name != "schema, more to it" {
				require.ErrorIs(t, err, state.ErrNewer)
				require.ErrorContains(t, err, "install that version or a later one")
			}
			require.ErrorContains(t, err, dir)
			assert.Equal(t, before, tree(t, dir), "nothing is written (R002-36)")
		})
	}
}

// TestMajorVersionDecides proves R002-61.
func TestMajorVersionDecides(t *testing.T) {
	for daemon, want := range map[string]bool{
		"v1.0.0": true, "v1.4.2": true, "v1.5.0-fake-next-minor": true, "v2.0.0": true, "dev": true, "": true, "v0.9.0": false,
	} {
		dir := used(t, today)
		s, err := state.Open(dir, state.Options{Daemon: daemon})
		if want {
			require.NoError(t, err, daemon)
			require.NoError(t, s.Close())
			continue
		}
		require.ErrorIs(t, err, state.ErrNewer, daemon)
		assert.Contains(t, stamp(t, dir), today)
	}
}

// TestDataWithoutAWholeStampIsOfTheOldestSchema proves R002-44, R002-62.
func TestDataWithoutAWholeStampIsOfTheOldestSchema(t *testing.T) {
	for name, content := range map[string]*string{"gone": nil, "empty": new(""), "truncated": new(`{"schema":2,"dae`), "blank": new(" \n")} {
		t.Run(name, func(t *testing.T) {
			dir := used(t, today)
			require.NoError(t, os.Remove(filepath.Join(dir, "version")))
			if content != nil {
				write(t, dir, "version", *content)
			}
			s := open(t, dir, today)
			assert.False(t, s.FirstRun)
			assert.Empty(t, s.Leftover)
			v, err := s.Journal.View()
			require.NoError(t, err)
			assert.Equal(t, "1", v.Devices["u"].LastGood)
			assert.JSONEq(t, `{"schema":2,"daemon":"v1.4.2"}`, stamp(t, dir))
			require.NoError(t, s.Close())

			if content == nil {
				require.NoError(t, os.Remove(filepath.Join(dir, "version")))
			} else {
				write(t, dir, "version", *content)
			}
			makeNewer(t, dir)
			before := tree(t, dir)
			_, err = state.Open(dir, state.Options{Daemon: today})
			require.ErrorIs(t, err, state.ErrNewer, "the checks go on")
			assert.Equal(t, before, tree(t, dir))
		})
	}
}

// A record that cannot be decoded keeps the daemon from starting, which is acceptable only if the error says what to do next.
func TestRefusalsSayWhatToDo(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, dir string){
		"record": func(t *testing.T, dir string) {
			db, err := bbolt.Open(filepath.Join(dir, "journal.db"), 0o600, nil)
			require.NoError(t, err)
			require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("devices")).Put([]byte("u"), []byte("{")) }))
			require.NoError(t, db.Close())
		},
		"stamp": func(t *testing.T, dir string) { write(t, dir, "version", `{"schema":"1"}`) },
		"zero":  func(t *testing.T, dir string) { write(t, dir, "version", `{"schema":0}`) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := used(t, today)
			damage(t, dir)
			before := tree(t, dir)
			_, err := state.Open(dir, state.Options{Daemon: today})
			require.ErrorContains(t, err, "move the file away")
			assert.Equal(t, before, tree(t, dir))
		})
	}
}

func makeNewer(t *testing.T, dir string) { makeSchema(t, dir, "3") }

// makeSchema gives the journal another schema.
func makeSchema(t *testing.T, dir, schema string) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(dir, "journal.db"), 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte(schema)) }))
	require.NoError(t, db.Close())
}

// TestFailedCheckLeavesTheStamp proves R002-36, R002-67.
func TestFailedCheckLeavesTheStamp(t *testing.T) {
	dir := used(t, "v1.0.0")
	makeNewer(t, dir)
	_, err := state.Open(dir, state.Options{Daemon: today})
	require.ErrorIs(t, err, state.ErrNewer)
	assert.Contains(t, stamp(t, dir), "v1.0.0")
	s := used(t, "v1.0.0")
	write(t, s, "journal.db", strings.Repeat("\x00", 1<<14))
	_, err = state.Open(s, state.Options{Daemon: today})
	require.Error(t, err)
	assert.Contains(t, stamp(t, s), "v1.0.0")
}

// TestOneProcessAtATime proves R002-71.
func TestOneProcessAtATime(t *testing.T) {
	dir := used(t, today)
	s := open(t, dir, today)
	_, err := state.Open(dir, state.Options{Daemon: today})
	require.ErrorIs(t, err, state.ErrLocked)
	require.ErrorContains(t, err, "another firmware-daemon is using it")
	found, err := state.Inspect(dir)
	require.NoError(t, err)
	assert.True(t, found.Locked)
	require.NoError(t, s.Close())
	found, err = state.Inspect(dir)
	require.NoError(t, err)
	assert.False(t, found.Locked)
	require.NoError(t, open(t, dir, today).Close())
}

func TestLocksNoRefusedDirectory(t *testing.T) {
	dir := used(t, "v2.0.0")
	_, err := state.Open(dir, state.Options{Daemon: today})
	require.ErrorIs(t, err, state.ErrNewer)
	open(t, dir, "v2.0.0")
}

func TestInspectReadsDaemonsState(t *testing.T) {
	dir := used(t, today)
	s := open(t, dir, today)
	m := archive.Manifest{UniqueID: "u", Class: inventory.NIC, Version: "1", BootID: "b", Rollback: inventory.RollbackReadBack}
	require.NoError(t, s.Archive.Keep(t.Context(), m, func(_ context.Context, path string) error {
		return os.WriteFile(path, []byte("image"), 0o600)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			job := journal.Job{Name: fmt.Sprint(i), UID: "uid-a", SupersededBy: strings.Repeat("x", i%5000)}
			if err := s.Journal.Save(job, journal.Device{UniqueID: "u", LastGood: fmt.Sprint(i)}); err != nil {
				done <- err
				return
			}
		}
	}()
	for range 20 {
		found, err := state.Inspect(dir)
		require.NoError(t, err)
		require.Empty(t, found.Problems)
		require.Len(t, found.Journal.Jobs, 1)
		if found.Journal.Jobs[0].Name != "a" { // one change is seen as one
			require.Equal(t, found.Journal.Jobs[0].Name, found.Journal.Devices["u"].LastGood)
		}
		require.Len(t, found.Archive, 1)
		require.True(t, found.Locked)
	}
	cancel()
	require.NoError(t, <-done)
	_, err := state.Inspect(filepath.Join(dir, "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestInspectNamesUnreadable(t *testing.T) {
	dir := used(t, today)
	write(t, dir, "version", `{"schema":"two"}`)
	write(t, dir, "journal.db", strings.Repeat("\x00", 1<<14))
	found, err := state.Inspect(dir)
	require.NoError(t, err)
	assert.Len(t, found.Problems, 2)
	found, err = state.Inspect(t.TempDir())
	require.NoError(t, err)
	assert.Equal(t, state.Inspection{}, found)
}

// The journal is written by bbolt and has tests of its own; here all around it is cut.
// It proves R002-33.
func TestPowerCutWhileOpening(t *testing.T) { // F2
	seeds := map[string]func(t *testing.T, dir string){
		"first run": func(*testing.T, string) {},
		"leftovers": func(t *testing.T, dir string) {
			write(t, dir, "journal.db", "half")
			write(t, dir, ".tmp-version", "{")
		},
		"foreign": func(t *testing.T, dir string) {
			s, err := state.Open(dir, state.Options{Daemon: today, Machine: first})
			require.NoError(t, err)
			require.NoError(t, s.Journal.Save(journal.Job{Name: "a", UID: "uid-a"}))
			require.NoError(t, s.Close())
			write(t, filepath.Join(dir, "archive", "nic", "1_boot"), "image", "bytes")
		},
		"new daemon": func(t *testing.T, dir string) {
			s := open(t, dir, "v1.0.0")
			require.NoError(t, s.Journal.Save(journal.Job{Name: "a", UID: "uid-a"}))
			require.NoError(t, s.Close())
		},
	}
	for name, seed := range seeds {
		t.Run(name, func(t *testing.T) {
			for at, done := 0, false; !done; at++ {
				dir := t.TempDir()
				seed(t, dir)
				fsys, err := durabletest.New(dir)
				require.NoError(t, err)
				fsys.CutAt(at)
				s, err := state.Open(dir, state.Options{Daemon: today, Machine: second, FS: fsys})
				if done = err == nil; done {
					require.NoError(t, s.Close())
				}
				assertOpens(t, fsys, uint64(at), name)
			}
		})
	}
}

// second is another machine than the first.
var second = state.Machine{UUID: "4c4c4544-0043", Serial: "J1002"}

func assertOpens(t *testing.T, fsys *durabletest.FS, seed uint64, name string) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 3))
	for range 4 {
		to := t.TempDir()
		require.NoError(t, fsys.Cut(random, to))
		s := openOn(t, to, second)
		v, err := s.Journal.View()
		require.NoError(t, err)
		switch name {
		case "new daemon":
			require.NotNil(t, v.Job("uid-a"))
			require.Empty(t, s.Leftover)
		case "foreign":
			require.Nil(t, v.Job("uid-a"), "of another machine")
		}
		require.NoError(t, s.Close())
	}
}

func TestFullOrReadOnlyDiskFails(t *testing.T) { // F5
	for want, limit := range map[error]func(*durabletest.FS){
		syscall.ENOSPC: func(f *durabletest.FS) { f.Full(0) }, syscall.EROFS: (*durabletest.FS).ReadOnly,
	} {
		dir := used(t, "v1.0.0")
		before := tree(t, dir)
		fsys, err := durabletest.New(dir)
		require.NoError(t, err)
		limit(fsys)
		_, err = state.Open(dir, state.Options{Daemon: today, FS: fsys})
		require.ErrorIs(t, err, want)
		assert.Equal(t, before, tree(t, dir))
	}
}

func FuzzStamp(f *testing.F) {
	for _, s := range []string{`{"schema":2,"daemon":"v1.2.3"}`, "{\"schema\":1}\n", "", "{", `{"schema":0}`, `{"schema":1e3}`, "null", `[1]`, `"v1"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := state.ParseStamp(raw)
		if err != nil {
			return
		}
		require.Positive(t, s.Schema)
		again, err := json.Marshal(s)
		require.NoError(t, err)
		back, err := state.ParseStamp(append(again, "\r\n"...))
		require.NoError(t, err)
		require.Equal(t, s, back)
	})
}

// TestStampReaderTolerates proves R002-38.
func TestStampReaderTolerates(t *testing.T) {
	for _, content := range []string{
		"{\"schema\":1,\"daemon\":\"v1.4.2\"}\n", "\r\n {\"daemon\":\"v1.4.2\", \"schema\": 1, \"later\": [1, {}]}\r\n\n", `{"schema":1}`,
	} {
		s, err := state.ParseStamp([]byte(content))
		require.NoError(t, err, content)
		assert.Equal(t, 1, s.Schema)
	}
	for _, content := range []string{`{}`, `{"schema":0}`, `{"schema":-1}`, `{"schema":-99999999999999999999}`, `{"schema":1.5}`, `{"schema":"1"}`, `{"schema":null}`, `[]`, `1`} {
		_, err := state.ParseStamp([]byte(content))
		require.Error(t, err, content)
		require.NotErrorIs(t, err, state.ErrTruncated, content)
	}
}

var _ durable.FS = (*durabletest.FS)(nil)

// stuck is a file system that removes nothing that is being written in the archive.
type stuck struct{ durable.OS }

func (s stuck) RemoveAll(path string) error {
	if strings.Contains(path, durable.TempPrefix) {
		return syscall.EPERM
	}
	return s.OS.RemoveAll(path)
}

// Remains of an interrupted archiving keep no daemon from finishing what a job began.
func TestRubbishThatCannotBeRemovedKeepsNoDaemonFromStarting(t *testing.T) {
	dir := used(t, today)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, state.ArchiveDir, "nic", durable.TempPrefix+"1.0_boot"), 0o700))
	s, err := state.Open(dir, state.Options{Daemon: today, FS: stuck{}})
	require.NoError(t, err)
	require.ErrorIs(t, s.Unswept, syscall.EPERM)
	require.NoError(t, s.Close())
}

// The state of a development build is set aside as it is: where the stamp says so, the journal, or both, and again after a start
// that was interrupted between its moves.
func TestEarlierBuildIsSetAside(t *testing.T) {
	for name, c := range map[string]struct {
		stamp     string
		archive   bool
		noJournal bool
		newer     bool
	}{
		"stamp and journal":          {stamp: `{"schema":1,"daemon":"dev"}`, archive: true},
		"journal without a stamp":    {archive: true},
		"journal under a cut stamp":  {stamp: `{"sch`},
		"stamp alone":                {stamp: `{"schema":1}`, noJournal: true},
		"stamp over a later journal": {stamp: `{"schema":1}`, newer: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := used(t, today)
			require.NoError(t, os.Remove(filepath.Join(dir, "version")))
			if c.stamp != "" {
				write(t, dir, "version", c.stamp)
			}
			if c.archive {
				write(t, filepath.Join(dir, "archive", "nic", "1_boot"), "image", "bytes")
			}
			if c.noJournal {
				require.NoError(t, os.Remove(filepath.Join(dir, "journal.db")))
			} else if !c.newer {
				makeSchema(t, dir, "1")
			}
			write(t, dir, "plugins.json", "{}")
			before := tree(t, dir)

			s := open(t, dir, today)
			assert.Equal(t, "earlier-1", s.Earlier)
			v, err := s.Journal.View()
			require.NoError(t, err)
			assert.Empty(t, v.Devices)
			assert.Contains(t, v.LastError(), "earlier-1", "a person finds it in the status of the node")
			require.NoError(t, s.Close())
			after := tree(t, dir)
			for path, content := range before {
				name, err := filepath.Rel(dir, path)
				require.NoError(t, err)
				if name != "plugins.json" {
					path = filepath.Join(dir, "earlier-1", name)
				}
				assert.Equal(t, content, after[path], path)
			}
			found, err := state.Inspect(dir)
			require.NoError(t, err)
			assert.Equal(t, []string{"earlier-1"}, found.Earlier)
			assert.Empty(t, found.Problems)
			assert.Empty(t, open(t, dir, today).Earlier, "once")
		})
	}
}

// A guest of a node has no jobs until someone opens the directory.
func TestGuestOfAnEarlierBuild(t *testing.T) {
	dir := used(t, today)
	makeSchema(t, dir, "1")
	v, err := state.NewGuest(dir, state.Machine{}).View()
	require.NoError(t, err)
	assert.Empty(t, v.Jobs)
}
