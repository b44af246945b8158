package artifact

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// shop is a directory of files and a store that may fetch them.
type shop struct {
	t     *testing.T
	dir   string
	root  string
	store *Store
	now   time.Time
}

func newShop(t *testing.T) *shop {
	s := &shop{t: t, dir: t.TempDir(), root: t.TempDir(), now: time.Unix(0, 0)}
	s.reopen()
	return s
}

func (s *shop) reopen() {
	store, err := OpenStore(s.root, NewFetcher(FetchConfig{FileRoot: s.dir}), func() time.Time { return s.now })
	require.NoError(s.t, err)
	s.store = store
}

func (s *shop) file(name string, content []byte, images ...Description) File {
	path := filepath.Join(s.dir, name)
	require.NoError(s.t, os.WriteFile(path, content, 0o600))
	return File{URL: "file://" + path, Digest: digestOf(content), Images: images}
}

func (s *shop) publish(source string, files ...File) ([]Image, error) {
	if err := CheckUnique(files); err != nil {
		return nil, err
	}
	for _, f := range s.store.Missing(source, files) {
		if err := s.store.Download(s.t.Context(), source, f, files...); err != nil {
			return nil, err
		}
	}
	return s.store.Publish(source, files)
}

func (s *shop) content(d inventory.Digest) string {
	f, err := s.store.Open(d)
	require.NoError(s.t, err)
	defer f.Close()
	data, err := io.ReadAll(f)
	require.NoError(s.t, err)
	return string(data)
}

func zipOf(t *testing.T, members ...string) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i := 0; i < len(members); i += 2 {
		m, err := w.Create(members[i])
		require.NoError(t, err)
		_, err = m.Write([]byte(members[i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func tarOf(t *testing.T, members ...string) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for i := 0; i < len(members); i += 2 {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: members[i], Size: int64(len(members[i+1])), Mode: 0o600}))
		_, err := w.Write([]byte(members[i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return out.Bytes()
}

// nic describes an image for boards, or else for a model.
func nic(path, version string, boards ...string) Description {
	d := Description{Path: path, Class: inventory.NIC, Version: inventory.Version(version), BoardIDs: boards}
	if len(boards) == 0 {
		d.Models = []string{"101d"}
	}
	return d
}

func TestLaysOutByVersionAndBoard(t *testing.T) { // R001-13, R001-14, R001-15
	s := newShop(t)
	bundle := s.file("bundle.zip", zipOf(t, "a/one.bin", "ONE", "readme", "no image", "./two.bin", "TWO"),
		nic("two.bin", "22.41", "MT_2"), nic("a/one.bin", "22.41", "MT_1", "MT_1B"))
	single := s.file("three.bin", []byte("THREE"), nic("", "../..", "MT_3"))
	tarball := s.file("four.tgz", tarOf(t, "four.bin", "FOUR"), nic("four.bin", "22.39"))

	images, err := s.publish("cx", bundle, single, tarball)
	require.NoError(t, err)

	var got []string
	for _, i := range images {
		got = append(got, fmt.Sprintf("%s %s %s", i.Version, strings.Join(i.BoardIDs, "+"), s.content(i.Digest)))
	}
	assert.Equal(t, []string{"../.. MT_3 THREE", "22.39  FOUR", "22.41 MT_1+MT_1B ONE", "22.41 MT_2 TWO"}, got)

	var tree []string
	base := filepath.Join(s.root, "sources", "cx")
	require.NoError(t, filepath.WalkDir(base, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(base, filepath.Dir(p))
			tree = append(tree, rel)
		}
		return err
	}))
	assert.Equal(t, []string{
		"firmware-binaries/..%2F../MT_3",
		"firmware-binaries/22.39/any", "firmware-binaries/22.41/MT_1", "firmware-binaries/22.41/MT_1B", "firmware-binaries/22.41/MT_2", ".",
	}, tree)
	assert.FileExists(t, filepath.Join(base, "metadata.json"))
}

func TestFetchesOnlyWhatIsMissing(t *testing.T) { // R001-14, R000-40
	s := newShop(t)
	a := s.file("a", []byte("A"), nic("", "1"))
	b := s.file("b", []byte("B"), nic("", "2"))
	_, err := s.publish("src", a)
	require.NoError(t, err)

	assert.Equal(t, []File{b}, s.store.Missing("src", []File{a, b}))
	require.NoError(t, os.Remove(filepath.Join(s.dir, "a")))
	s.reopen()
	_, err = s.publish("src", a, b)
	require.NoError(t, err, "a is in store; its origin is not needed")

	changed := a
	changed.Digest = digestOf([]byte("A2"))
	assert.Equal(t, []File{changed}, s.store.Missing("src", []File{changed}))
	require.NoError(t, os.Truncate(s.store.Path(digestOf([]byte("B"))), 0))
	assert.Equal(t, []File{b}, s.store.Missing("src", []File{a, b}), "a damaged blob is fetched again")
}

func TestOffersNoChangedImage(t *testing.T) { // R001-14
	decay := func(s *shop, path string) { // the size and the times stay, as when a medium decays
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(path, 0o600))
		require.NoError(t, os.WriteFile(path, []byte("GARBAGE!"), 0o600))
		require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	}
	overwrite := func(s *shop, path string) {
		decay(s, path)
		require.NoError(t, os.Chtimes(path, s.now, s.now))
	}
	for name, damage := range map[string]func(s *shop, path string){
		"overwritten":                  overwrite,
		"decayed, and hours later":     func(s *shop, path string) { decay(s, path); s.now = s.now.Add(6 * time.Hour) },
		"decayed, and a restart later": func(s *shop, path string) { decay(s, path); s.reopen() },
		"an unreadable file":           func(s *shop, path string) { require.NoError(t, errors.Join(os.Remove(path), os.Mkdir(path, 0o700))) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			f := s.file("fw", []byte("FIRMWARE"), nic("", "1"))
			_, err := s.publish("src", f)
			require.NoError(t, err)
			require.Equal(t, "FIRMWARE", s.content(f.Digest))

			damage(s, s.store.Path(f.Digest))
			_, err = s.store.Open(f.Digest)
			require.Error(t, err)
			assert.Empty(t, s.store.InStore("src", []File{f}))
			if name == "an unreadable file" {
				return
			}
			require.ErrorIs(t, err, fs.ErrNotExist)
			_, err = s.publish("src", f)
			require.NoError(t, err)
			assert.Equal(t, "FIRMWARE", s.content(f.Digest))
		})
	}
}

func TestNamesArchiveFault(t *testing.T) { // R001-16
	s := newShop(t)
	bomb := zipOf(t, "one.bin", "x", "one.bin", "y")
	for name, tc := range map[string]struct {
		file    File
		reason  Reason
		message string
	}{
		"an image that is not there":   {s.file("1", zipOf(t, "other.bin", "x"), nic("one.bin", "1")), UnpackFailed, "does not hold one.bin"},
		"an image that is there twice": {s.file("2", bomb, nic("one.bin", "1")), UnpackFailed, "twice"},
		"no archive at all":            {s.file("3", []byte("<html>"), nic("one.bin", "1")), UnpackFailed, "not a zip, tar, cabinet or RPM archive"},
		"an archive of another kind":   {s.file("4", []byte("7z\xbc\xaf\x27\x1c"), nic("one.bin", "1")), UnpackFailed, "a 7z archive"},
		"an archive as an image":       {s.file("9", zipOf(t, "one.bin", "x"), nic("", "1")), InvalidSpec, "path"},
		"an empty image":               {s.file("5", zipOf(t, "one.bin", ""), nic("one.bin", "1")), UnpackFailed, "empty"},
		"a truncated archive":          {s.file("6", tarOf(t, "one.bin", strings.Repeat("x", 4000))[:40], nic("one.bin", "1")), UnpackFailed, ""},
		"a zip that explodes":          {s.file("8", zipOf(t, "one.bin", strings.Repeat("\x00", 64<<20)), nic("one.bin", "1")), UnpackFailed, "size limit"},
		"an archive that explodes":     {s.file("7", tarOf(t, "zeros", strings.Repeat("\x00", 64<<20), "one.bin", "x"), nic("one.bin", "1")), UnpackFailed, "size limit"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.publish("src", tc.file)
			reason, again := ReasonOf(err)
			assert.Equal(t, tc.reason, reason, "%v", err)
			assert.False(t, again)
			assert.ErrorContains(t, err, tc.message)
		})
	}
	entries, err := os.ReadDir(filepath.Join(s.root, "blobs"))
	require.NoError(t, err)
	for _, e := range entries {
		assert.NotContains(t, e.Name(), ".tmp", "nothing half-done is left")
	}
}

func TestStoreTakesOneImageForEachBoardAndVersion(t *testing.T) { // R001-16
	s := newShop(t)
	a := s.file("a", []byte("A"), nic("", "1", "MT_1"))
	b := s.file("b", []byte("B"), nic("", "1", "mt_1 "))
	_, err := s.publish("src", a, b)
	reason, _ := ReasonOf(err)
	assert.Equal(t, InvalidSpec, reason)
	assert.ErrorContains(t, err, "MT_1")
}

// Two images for one board are no contradiction where no device could get both.
func TestImagesForOneBoardMayBeForDifferentModels(t *testing.T) { // R001-16
	model := func(vendor, model string, boards ...string) Description {
		d := nic("", "1", boards...)
		d.Vendor, d.Models = vendor, nil
		if model != "" {
			d.Models = []string{model}
		}
		return d
	}
	for name, tc := range map[string]struct {
		a, b  Description
		clash bool
	}{
		"for the same board":                 {model("", "", "MT_1"), model("", "", "MT_1"), true},
		"for the same board, one of a model": {model("", "101d", "MT_1"), model("", "", "MT_1"), true},
		"for the same board, one of a maker": {model("15b3", "", "MT_1"), model("", "", "MT_1"), true},
		"for the same board, one of any":     {model("any", "", "MT_1"), model("8086", "", "MT_1"), true},
		"for the same board of two makers":   {model("15b3", "", "MT_1"), model("8086", "", "MT_1"), false},
		"for the same board of one maker":    {model("Dell Inc.", "", "MT_1"), model("dell-inc", "", "MT_1"), true},
		"for the same board of two models":   {model("", "101d", "MT_1"), model("", "1021", "MT_1"), false},
		"for the same model":                 {model("", "101d"), model("", "101D "), true},
		"for the same model of one maker":    {model("15b3", "101d"), model("", "101d"), true},
		"for two models":                     {model("", "101d"), model("", "1021"), false},
		"for a model, and a board of it":     {model("", "101d"), model("", "101d", "MT_1"), false}, // a device of the model may have another board
	} {
		s := newShop(t)
		_, err := s.publish("src", s.file("a", []byte("A"), tc.a), s.file("b", []byte("B"), tc.b))
		if !tc.clash {
			assert.NoError(t, err, name)
			continue
		}
		reason, _ := ReasonOf(err)
		assert.Equal(t, InvalidSpec, reason, name)
	}
}

func TestNamesBoardsWithTwoImages(t *testing.T) { // R001-16
	s := newShop(t)
	files := []File{
		s.file("a", []byte("A"), nic("", "1", "MT_1", "MT_2", "MT_4")),
		s.file("b", []byte("B"), nic("", "1", "MT_1", "MT_3")),
		s.file("c", []byte("C"), nic("", "1", "MT_2", "MT_3")),
		s.file("d", []byte("D"), nic("", "2", "MT_1")),
	}
	_, err := s.publish("src", files...)
	for _, board := range []string{"MT_1", "MT_2", "MT_3"} {
		assert.ErrorContains(t, err, fmt.Sprintf("version 1 for class NIC, board id %q", board))
	}
	assert.NotContains(t, err.Error(), "MT_4")
	assert.NotContains(t, err.Error(), "version 2")

	var many []string
	for i := range 30 {
		many = append(many, fmt.Sprintf("MT_%02d", i))
	}
	_, err = s.publish("many", s.file("e", []byte("E"), nic("", "1", many...)), s.file("f", []byte("F"), nic("", "1", many...)))
	assert.ErrorContains(t, err, "and 20 more")
	_, err = os.Stat(filepath.Join(s.root, "sources", "src", "firmware-binaries"))
	assert.ErrorIs(t, err, fs.ErrNotExist, "nothing is laid out")
}

// Whoever looks at the tree while a source changes, or after a crash at any point, finds the old or the new one.
func TestReplacesTreeAtomically(t *testing.T) { // R001-15
	s := newShop(t)
	old := s.file("a", []byte("A"), nic("", "1"))
	next := s.file("b", []byte("B"), nic("", "2"))
	_, err := s.publish("src", old)
	require.NoError(t, err)
	tree := filepath.Join(s.root, "sources", "src", "firmware-binaries")
	done := make(chan struct{})
	missing := make(chan error, 1)
	go func() {
		defer close(missing)
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := os.Lstat(tree); err != nil {
				missing <- err
				return
			}
		}
	}()
	for i := range 200 {
		_, err := s.publish("src", []File{old, next}[i%2])
		require.NoError(t, err)
	}
	close(done)
	assert.NoError(t, <-missing)

	// What a crash left beside it goes with the next one.
	for _, rest := range []string{".next", ".old"} {
		require.NoError(t, os.MkdirAll(filepath.Join(tree+rest, "9", "any"), 0o755))
	}
	_, err = s.publish("src", next)
	require.NoError(t, err)
	beside, err := os.ReadDir(filepath.Dir(tree))
	require.NoError(t, err)
	assert.Len(t, beside, 2, "the tree and metadata.json")
}

// NFS exchanges no directories.
func TestATreeIsReplacedWhereDirectoriesCannotBeExchanged(t *testing.T) {
	for _, refusal := range []error{unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP} {
		dir := filepath.Join(t.TempDir(), "tree")
		for _, version := range []string{"1", "2"} {
			require.NoError(t, os.MkdirAll(filepath.Join(dir+".next", version), 0o755))
			require.NoError(t, replaceDir(dir+".next", dir, func(string, string) error { return refusal }))
			assert.DirExists(t, filepath.Join(dir, version))
		}
		assert.NoDirExists(t, filepath.Join(dir, "1"))
		assert.NoDirExists(t, dir+".next")
		assert.NoDirExists(t, dir+".old")
	}
	dir := filepath.Join(t.TempDir(), "tree")
	require.NoError(t, errors.Join(os.Mkdir(dir, 0o755), os.Mkdir(dir+".next", 0o755)))
	require.ErrorIs(t, replaceDir(dir+".next", dir, func(string, string) error { return unix.EIO }), unix.EIO)
	assert.DirExists(t, dir, "the old one stays")
}

func TestCollectsUnreferenced(t *testing.T) {
	s := newShop(t)
	shared := s.file("a", []byte("A"), nic("", "1"))
	own := s.file("b", []byte("B"), nic("", "2"))
	_, err := s.publish("one", shared, own)
	require.NoError(t, err)
	_, err = s.publish("two", shared)
	require.NoError(t, err)

	require.NoError(t, s.store.Remove("one"))
	inUse, apiDown := []inventory.Digest{digestOf([]byte("B"))}, error(nil)
	once := func() error {
		return s.store.Collect(func() ([]inventory.Digest, error) { return inUse, apiDown })
	}
	collect := func() error { // twice, as long apart as an image that nobody needs is kept
		err := once()
		s.now = s.now.Add(collectAfter)
		return errors.Join(err, once())
	}
	require.NoError(t, collect())
	assert.Equal(t, "B", s.content(digestOf([]byte("B"))), "no source holds it, but it is in use")
	inUse, apiDown = nil, fs.ErrPermission
	require.ErrorIs(t, collect(), apiDown)
	assert.Equal(t, "B", s.content(digestOf([]byte("B"))), "it is not known what is in use")
	apiDown = nil
	require.NoError(t, collect())
	assert.Equal(t, "A", s.content(digestOf([]byte("A"))))
	_, err = s.store.Open(digestOf([]byte("B")))
	assert.ErrorIs(t, err, fs.ErrNotExist)

	require.NoError(t, os.WriteFile(filepath.Join(s.root, "sources", "two", "metadata.json"), []byte("{"), 0o600))
	require.Error(t, collect(), "what cannot be read is not unused")
	assert.Equal(t, "A", s.content(digestOf([]byte("A"))))
}

func TestAnImageThatNobodyNeedsIsKeptForAWhile(t *testing.T) {
	s := newShop(t)
	f := s.file("a", []byte("A"), nic("", "1"))
	_, err := s.publish("src", f)
	require.NoError(t, err)
	var inUse []inventory.Digest
	after := func(d time.Duration) bool {
		s.now = s.now.Add(d)
		require.NoError(t, s.store.Collect(func() ([]inventory.Digest, error) { return inUse, nil }))
		_, err := os.Stat(s.store.Path(f.Digest))
		return err == nil
	}
	require.True(t, after(48*time.Hour), "a source holds it")
	require.NoError(t, s.store.Remove("src"))
	assert.True(t, after(0))
	assert.True(t, after(59*time.Minute))
	inUse = []inventory.Digest{f.Digest}
	assert.True(t, after(24*time.Hour), "somebody needs it again")
	inUse = nil
	assert.True(t, after(0), "the time begins anew")
	s.reopen()
	assert.True(t, after(time.Hour), "and with a restart too")
	assert.True(t, after(59*time.Minute))
	assert.False(t, after(time.Minute))
}

// To ask who needs an image reads every job of the fleet, and each look at a source collects.
func TestStoreAsksForWhatIsInUseOnlyBeforeItDeletes(t *testing.T) {
	s := newShop(t)
	f := s.file("a", []byte("A"), nic("", "1"))
	_, err := s.publish("src", f)
	require.NoError(t, err)
	require.NoError(t, s.store.Remove("src"))
	asked := 0
	for range 24 * 60 {
		require.NoError(t, s.store.Collect(func() ([]inventory.Digest, error) {
			asked++
			return []inventory.Digest{f.Digest}, nil
		}))
		s.now = s.now.Add(time.Minute)
	}
	assert.Equal(t, 23, asked, "once an hour for an image that no source lists and a job needs")
	assert.Equal(t, "A", s.content(f.Digest))
}

func TestReportsUnwritableStore(t *testing.T) { // R001-14
	s := newShop(t)
	require.NoError(t, s.store.Available())
	require.NoError(t, os.RemoveAll(filepath.Join(s.root, "blobs")))
	reason, again := ReasonOf(s.store.Available())
	assert.Equal(t, StorageFailed, reason)
	assert.True(t, again)
}

func FuzzUnpackNeverWritesWhatWasNotAskedFor(f *testing.F) {
	for _, magic := range []string{"PK\x03\x04", "\x1f\x8b\x08", "MSCF", "\xfd7zXZ\x00", "\x28\xb5\x2f\xfd", strings.Repeat("\x00", 257) + "ustar"} {
		f.Add([]byte(magic))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		name := filepath.Join(t.TempDir(), "a")
		require.NoError(t, os.WriteFile(name, data, 0o600))
		taken := 0
		err := extract(t.Context(), name, []string{"one.bin"}, func(path string, content io.Reader) error {
			taken++
			assert.Equal(t, "one.bin", path)
			_, err := io.Copy(io.Discard, content)
			return err
		})
		assert.True(t, err != nil || taken == 1)
	})
}

// What was fetched becomes the image itself: it is neither copied nor left behind, however large it is.
func TestALargeImageIsStoredOnce(t *testing.T) {
	s := newShop(t)
	content := bytes.Repeat([]byte("0123456789abcdef"), (2*eagerAfter+4096)/16)
	images, err := s.publish("cx", s.file("large.bin", content, nic("", "1")))
	require.NoError(t, err)
	require.Len(t, images, 1)
	assert.EqualValues(t, len(content), images[0].Size)
	assert.Equal(t, digestOf(content), images[0].Digest)
	assert.Equal(t, digestOf(content), digestOf([]byte(s.content(images[0].Digest))), "the content is whole")
	blobs, err := os.ReadDir(filepath.Join(s.root, blobsDir))
	require.NoError(t, err)
	require.Len(t, blobs, 1)
	info, err := blobs[0].Info()
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o444), info.Mode())
}
