package archive_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

const card = "nic-b83fd2000010"

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func manifest(version, bootID string) archive.Manifest {
	return archive.Manifest{
		UniqueID: card, Class: inventory.NIC, Model: "CX6", BoardID: "MT_0000000359", Version: inventory.Version(version), BootID: bootID,
		Rollback: inventory.RollbackReadBack, Job: "job-1", Time: noon,
	}
}

// content is what an image of the version holds.
func content(version string) string { return strings.Repeat("firmware "+version+" ", 200) }

// fill writes an image and counts how often it was asked to.
func fill(text string, calls *int) func(context.Context, string) error {
	return func(_ context.Context, path string) error {
		if calls != nil {
			*calls++
		}
		return os.WriteFile(path, []byte(text), 0o600)
	}
}

func newStore(t *testing.T) (s *archive.Store, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "archive")
	return archive.New(dir, durable.OS{}), dir
}

func keep(t *testing.T, s *archive.Store, m archive.Manifest) {
	t.Helper()
	require.NoError(t, s.Keep(t.Context(), m, fill(content(string(m.Version)), nil)))
}

// names of the entries, without the device.
func names(t *testing.T, s *archive.Store) []string {
	t.Helper()
	entries, err := s.List()
	require.NoError(t, err)
	out := []string{}
	for _, e := range entries {
		require.NoError(t, e.Err)
		out = append(out, filepath.Base(e.Name))
	}
	return out
}

func assertImage(t *testing.T, s *archive.Store, version string) {
	t.Helper()
	img, m, err := s.Image(card, inventory.Version(version))
	require.NoError(t, err)
	require.NoError(t, img.Verify())
	raw, err := os.ReadFile(img.Path)
	require.NoError(t, err)
	assert.Equal(t, content(version), string(raw))
	assert.Equal(t, version, string(m.Version))
	assert.Equal(t, m.Digest, img.Digest.String())
}

// TestWhatIsKeptIsFoundAgain proves R002-8, R002-49.
func TestWhatIsKeptIsFoundAgain(t *testing.T) {
	s, dir := newStore(t)
	require.NoError(t, s.Sweep(), "an archive nobody made yet is empty")
	_, _, err := s.Image(card, "1")
	require.ErrorIs(t, err, archive.ErrNone)
	keep(t, s, manifest("22.39.1", "boot-1"))
	_, _, err = s.Image(card, "22.39.10")
	require.ErrorIs(t, err, archive.ErrNone, "another version (R002-34)")
	_, _, err = s.Image("another", "22.39.1")
	require.ErrorIs(t, err, archive.ErrNone)
	assertImage(t, s, "22.39.1")
	_, m, err := s.Image(card, "22.39.1")
	require.NoError(t, err)
	assert.Equal(t, "job-1", m.Job)
	assert.Equal(t, "boot-1", m.BootID)
	assert.Equal(t, []string{"22.39.1_boot-1"}, names(t, s), "exactly one")
	files, err := os.ReadDir(filepath.Join(dir, card, "22.39.1_boot-1"))
	require.NoError(t, err)
	assert.Len(t, files, 2, "image and manifest")
}

// TestReusesOrReplacesNamesake proves R002-45, R002-59.
func TestReusesOrReplacesNamesake(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, entry string){
		"whole": nil,
		"image changed": func(t *testing.T, entry string) {
			require.NoError(t, os.WriteFile(filepath.Join(entry, "image"), []byte(strings.Repeat("x", len(content("1")))), 0o600))
		},
		"image truncated": func(t *testing.T, entry string) { require.NoError(t, os.Truncate(filepath.Join(entry, "image"), 10)) },
		"image gone":      func(t *testing.T, entry string) { require.NoError(t, os.Remove(filepath.Join(entry, "image"))) },
		"manifest gone":   func(t *testing.T, entry string) { require.NoError(t, os.Remove(filepath.Join(entry, "manifest.json"))) },
		"manifest torn": func(t *testing.T, entry string) {
			require.NoError(t, os.Truncate(filepath.Join(entry, "manifest.json"), 20))
		},
		"of another board": func(t *testing.T, entry string) {
			editManifest(t, entry, func(m map[string]any) { m["boardID"] = "MT_0000000834" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newStore(t)
			calls := 0
			require.NoError(t, s.Keep(t.Context(), manifest("1", "b"), fill(content("1"), &calls)))
			if damage != nil {
				damage(t, filepath.Join(dir, card, "1_b"))
			}
			require.NoError(t, s.Keep(t.Context(), manifest("1", "b"), fill(content("1"), &calls)))
			want := 2
			if damage == nil {
				want = 1
			}
			assert.Equal(t, want, calls)
			assertImage(t, s, "1")
			assert.Equal(t, []string{"1_b"}, names(t, s))
			_, m, err := s.Image(card, "1")
			require.NoError(t, err)
			assert.Equal(t, "MT_0000000359", m.BoardID)
		})
	}
}

func editManifest(t *testing.T, entry string, edit func(map[string]any)) {
	t.Helper()
	path := filepath.Join(entry, "manifest.json")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal(raw, &m))
	edit(m)
	raw, err = json.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, raw, 0o600))
}

// TestNeverRestoresForeignEntry proves R002-21, R002-32, R002-74.
func TestNeverRestoresForeignEntry(t *testing.T) {
	for name, edit := range map[string]func(map[string]any){
		"another device":    func(m map[string]any) { m["uniqueID"] = "another" },
		"another version":   func(m map[string]any) { m["version"] = "2" },
		"another boot":      func(m map[string]any) { m["bootID"] = "c" },
		"unknown class":     func(m map[string]any) { m["class"] = "GPU" },
		"unknown rollback":  func(m map[string]any) { m["rollback"] = 9 },
		"rollback of words": func(m map[string]any) { m["rollback"] = "ReadBack" },
		"another digest":    func(m map[string]any) { m["digest"] = "sha256:" + strings.Repeat("0", 64) },
		"digest of MD5":     func(m map[string]any) { m["digest"] = "md5:0" },
		"another size":      func(m map[string]any) { m["size"] = 3 },
		"no size":           func(m map[string]any) { delete(m, "size") },
		"unhealthy":         func(m map[string]any) { m["unhealthy"] = true },
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newStore(t)
			keep(t, s, manifest("1", "b"))
			editManifest(t, filepath.Join(dir, card, "1_b"), edit)
			_, _, err := s.Image(card, "1")
			require.ErrorIs(t, err, archive.ErrNone)
			require.ErrorContains(t, err, "damaged")
			_, _, err = s.Restorable(card + "/1_b")
			require.Error(t, err)
		})
	}
	s, dir := newStore(t)
	keep(t, s, manifest("1", "b"))
	editManifest(t, filepath.Join(dir, card, "1_b"), func(m map[string]any) { m["future"] = true })
	assertImage(t, s, "1")
}

// TestMovedEntryIsForeign proves R002-74.
func TestMovedEntryIsForeign(t *testing.T) {
	s, dir := newStore(t)
	keep(t, s, manifest("1", "b"))
	require.NoError(t, os.Rename(filepath.Join(dir, card), filepath.Join(dir, "another")))
	_, _, err := s.Image("another", "1")
	require.ErrorIs(t, err, archive.ErrNone)
	_, _, err = s.Restorable("another/1_b")
	require.ErrorContains(t, err, card)
}

func TestTakesNewestWholeImage(t *testing.T) {
	s, dir := newStore(t)
	first, second := manifest("1", "b1"), manifest("1", "b2")
	second.Time = noon.Add(-24 * time.Hour) // the clock went back
	keep(t, s, first)
	keep(t, s, second)
	_, m, err := s.Image(card, "1")
	require.NoError(t, err)
	assert.Equal(t, "b2", m.BootID)
	require.NoError(t, os.Truncate(filepath.Join(dir, card, "1_b2", "image"), 3))
	_, m, err = s.Image(card, "1")
	require.NoError(t, err)
	assert.Equal(t, "b1", m.BootID)
}

// TestEvidenceKeptNotRestored proves R002-35.
func TestEvidenceKeptNotRestored(t *testing.T) {
	s, _ := newStore(t)
	keep(t, s, manifest("1", "b1"))
	for _, boot := range []string{"b2", "b3", "b4"} {
		bad := manifest("2", boot)
		bad.Unhealthy = true
		keep(t, s, bad)
	}
	assert.Equal(t, []string{"2_b4_unhealthy", "2_b3_unhealthy", "1_b1"}, names(t, s), "evidence is bounded and displaces nothing good")
	_, _, err := s.Image(card, "2")
	require.ErrorIs(t, err, archive.ErrNone)
	_, _, err = s.Restorable(card + "/2_b4_unhealthy")
	require.ErrorContains(t, err, "unhealthy host")
	assertImage(t, s, "1")
}

func TestFailedFillLeavesNothing(t *testing.T) {
	s, dir := newStore(t)
	keep(t, s, manifest("1", "b"))
	broken := errors.New("tool failed")
	for name, f := range map[string]func(context.Context, string) error{
		"failed": func(_ context.Context, path string) error {
			return errors.Join(broken, os.WriteFile(path, []byte("half"), 0o600))
		},
		"full":    func(context.Context, string) error { return syscall.ENOSPC },
		"nothing": func(context.Context, string) error { return nil },
		"empty":   fill("", nil),
		"link": func(_ context.Context, path string) error {
			return os.Symlink(filepath.Join(dir, card, "1_b", "image"), path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Error(t, s.Keep(t.Context(), manifest("2", "b"), f))
			assert.Equal(t, []string{"1_b"}, names(t, s))
			files, err := os.ReadDir(filepath.Join(dir, card))
			require.NoError(t, err)
			assert.Len(t, files, 1)
		})
	}
}

func TestRefusesIncompleteManifest(t *testing.T) {
	s, _ := newStore(t)
	for name, edit := range map[string]func(*archive.Manifest){
		"device":   func(m *archive.Manifest) { m.UniqueID = "" },
		"version":  func(m *archive.Manifest) { m.Version = "" },
		"boot":     func(m *archive.Manifest) { m.BootID = "" },
		"class":    func(m *archive.Manifest) { m.Class = "" },
		"rollback": func(m *archive.Manifest) { m.Rollback = inventory.RollbackSlot },
		"too long": func(m *archive.Manifest) { m.Version = inventory.Version(strings.Repeat("/", 100)) },
	} {
		t.Run(name, func(t *testing.T) {
			m := manifest("1", "b")
			edit(&m)
			require.Error(t, s.Keep(t.Context(), m, fill("x", nil)))
		})
	}
}

// TestCopyOutsideTheArchive proves R002-73, R002-74.
func TestCopyOutsideTheArchive(t *testing.T) {
	target := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, archive.Write(t.Context(), durable.OS{}, target, manifest("1", "b"), fill(content("1"), nil)))
	img, m, err := archive.Load(durable.OS{}, target)
	require.NoError(t, err)
	require.NoError(t, img.Verify())
	assert.Equal(t, card, m.UniqueID)
	err = archive.Write(t.Context(), durable.OS{}, target, manifest("1", "b"), fill("other", nil))
	require.ErrorIs(t, err, archive.ErrExists)
	require.NoError(t, os.WriteFile(filepath.Join(target, "image"), []byte("other"), 0o600))
	_, _, err = archive.Load(durable.OS{}, target)
	require.Error(t, err)
	_, _, err = archive.Load(durable.OS{}, t.TempDir())
	require.ErrorContains(t, err, "manifest.json")
}

// A bad sector under one entry is no reason to lose the way back to another one (I7).
func TestUnreadableEntryOfAnotherVersionIsNoObstacle(t *testing.T) {
	s, dir := newStore(t)
	keep(t, s, manifest("1.0", "boot-1"))
	keep(t, s, manifest("2.0", "boot-2"))
	bad := filepath.Join(dir, card, "1.0_boot-1", "manifest.json")
	require.NoError(t, os.Remove(bad))
	require.NoError(t, os.Mkdir(bad, 0o700)) // reading it is an error that says nothing of the entry
	_, m, err := s.Image(card, "2.0")
	require.NoError(t, err)
	assert.Equal(t, inventory.Version("2.0"), m.Version)
	_, _, err = s.Image(card, "1.0")
	require.ErrorIs(t, err, syscall.EISDIR)
	require.NotErrorIs(t, err, archive.ErrNone, "nobody knows whether it is whole")
}

// vanishing removes an entry as a daemon does while another process lists the archive.
type vanishing struct {
	durable.OS
	entry string
}

func (v vanishing) ReadDir(path string) ([]os.DirEntry, error) {
	entries, err := v.OS.ReadDir(path)
	if path == filepath.Dir(v.entry) {
		err = errors.Join(err, os.RemoveAll(v.entry))
	}
	return entries, err
}

func TestEntryThatGoesWhileTheArchiveIsListedIsNoError(t *testing.T) {
	s, dir := newStore(t)
	keep(t, s, manifest("1.0", "boot-1"))
	keep(t, s, manifest("2.0", "boot-2"))
	entries, err := archive.New(dir, vanishing{entry: filepath.Join(dir, card, "1.0_boot-1")}).List()
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Equal(t, inventory.Version("2.0"), entries[0].Manifest.Version)
}

// An image that is archived already is not read again, but what the device stores of its settings may have changed since.
func TestSettingsOfAnArchivedImageFollowTheDevice(t *testing.T) {
	s, dir := newStore(t)
	m := manifest("1.0", "boot-1")
	fills := 0
	keep := func(settings ...archive.Setting) []archive.Setting {
		m.Settings = settings
		require.NoError(t, s.Keep(t.Context(), m, fill(content("1.0"), &fills)))
		_, is, err := archive.New(dir, durable.OS{}).Image(m.UniqueID, "1.0")
		require.NoError(t, err)
		return is.Settings
	}
	four, eight := archive.Setting{Name: "VFS", Value: "4"}, archive.Setting{Name: "VFS", Value: "8"}
	assert.Empty(t, keep())
	assert.Equal(t, []archive.Setting{four}, keep(four))
	assert.Equal(t, []archive.Setting{eight}, keep(eight))
	assert.Equal(t, []archive.Setting{eight}, keep(), "where they could not be read, those from before stay")
	assert.Equal(t, 1, fills)
}

func TestWhatIsKeptOfSettings(t *testing.T) {
	p := func(name string) inventory.Parameter {
		return inventory.Parameter{Name: name, Current: inventory.Read("1"), Next: inventory.Read("2")}
	}
	volatile, fixed, common, unknown := p("volatile"), p("fixed"), p("common"), p("unknown")
	volatile.Volatile, fixed.ReadOnly, common.Sets, unknown.Next = true, "it is", []string{"own"}, inventory.Reading{}
	all := []inventory.Parameter{volatile, fixed, common, unknown, p("own"), p("other")}
	assert.Equal(t, []archive.Setting{{Name: "own", Value: "9"}, {Name: "other", Value: "2"}},
		archive.SettingsOf(all, inventory.Setting{Name: "own", Value: "9"}, inventory.Setting{Name: "fixed", Value: "9"}), "what is stored, or was before")
	large := p("large")
	large.Next = inventory.Read(strings.Repeat("x", 200<<10))
	assert.Empty(t, archive.SettingsOf(append(all, large)), "half of them would be none")

	narrow := p("narrow")
	narrow.Domain.Values = []string{"1", "2"}
	m := archive.Manifest{Settings: []archive.Setting{{Name: "own", Value: "9"}, {Name: "gone", Value: "1"}, {Name: "narrow", Value: "3"}}}
	set, left := m.SettingsFor(append(all, narrow), false)
	assert.Equal(t, []inventory.Setting{{Name: "own", Value: "9"}}, set)
	assert.Equal(t, []string{"gone", "narrow"}, left)
	set, left = m.SettingsFor(append(all, narrow), true)
	assert.Len(t, set, 2, "the archived firmware may know it")
	assert.Equal(t, []string{"narrow"}, left)
}
