package artifact

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
)

// A source is edited: one file is another one at the same URL, one is new and one goes. The process may end before and after every
// change of the disk. Whatever it leaves is the old or the new state, and the next process comes to the same end.
func TestACrashBetweenAnyTwoStepsLeavesTheOldOrTheNewState(t *testing.T) { // R001-14, R001-15
	s := newShop(t)
	signed := s.signer()
	before := []File{
		signed(s.file("bundle.zip", zipOf(t, "one.bin", "ONE", "two.bin", "TWO"), nic("one.bin", "1", "MT_1"), nic("two.bin", "1", "MT_2"))),
		s.file("gone.bin", []byte("GONE"), nic("", "1", "MT_3")),
	}
	_, err := s.publish("cx", before...)
	require.NoError(t, err)
	oldTree := s.tree("cx")

	var left []string
	s.store.step = func() {
		dir := filepath.Join(t.TempDir(), fmt.Sprintf("%03d", len(left)))
		require.NoError(t, os.CopyFS(dir, os.DirFS(s.root)))
		left = append(left, dir)
	}
	after := []File{
		signed(s.file("bundle.zip", zipOf(t, "one.bin", "ONE", "two.bin", "TWO, CORRECTED"), nic("one.bin", "1", "MT_1"), nic("two.bin", "1", "MT_2"))),
		s.file("new.bin", []byte("NEW"), nic("", "2", "MT_3")),
	}
	whole := func(s *shop) {
		_, err := s.publish("cx", after...)
		require.NoError(t, err)
		for range 2 { // as long apart as an image that nobody needs is kept
			require.NoError(t, s.store.Collect(func() ([]inventory.Digest, error) { return nil, nil }))
			s.now = s.now.Add(collectAfter)
		}
	}
	whole(s)
	newTree, end := s.tree("cx"), s.everything()
	require.NotEqual(t, oldTree, newTree)
	require.Greater(t, len(left), 20, "each change of the disk is a step")

	for _, dir := range left {
		next := &shop{t: t, dir: s.dir, root: dir, now: time.Unix(0, 0)}
		next.reopen()
		got := next.tree("cx")
		assert.True(t, assert.ObjectsAreEqual(oldTree, got) || assert.ObjectsAreEqual(newTree, got), "%s: %s", filepath.Base(dir), got)
		next.requireSound()
		for _, i := range append(next.store.InStore("cx", before), next.store.InStore("cx", after)...) {
			next.content(i.Digest)
		}
		whole(next)
		assert.Equal(t, end, next.everything(), filepath.Base(dir))
	}
}

// The deletion of a source may end anywhere as well; it is begun again.
func TestACrashDuringADeletionLeavesNothingForGood(t *testing.T) {
	s := newShop(t)
	own := s.file("a", []byte("A"), nic("", "1"))
	shared := s.file("b", []byte("B"), nic("", "2"))
	_, err := s.publish("kept", shared)
	require.NoError(t, err)
	end := s.everything()
	_, err = s.publish("goes", own, shared)
	require.NoError(t, err)
	for _, lost := range []string{"metadata.json", "firmware-binaries"} { // a removal goes through them in any order
		require.NoError(t, os.RemoveAll(filepath.Join(s.root, "sources", "goes", lost)))
		s.reopen()
		s.requireSound()
		assert.Equal(t, "B", s.content(digestOf([]byte("B"))))
		require.NoError(t, s.store.Remove("goes"))
		for range 2 {
			require.NoError(t, s.store.Collect(func() ([]inventory.Digest, error) { return nil, nil }))
			s.now = s.now.Add(collectAfter)
		}
		assert.Equal(t, end, s.everything())
		_, err = s.publish("goes", own, shared)
		require.NoError(t, err)
	}
}

// signer returns a function that has a publisher sign a file.
func (s *shop) signer() func(File) File {
	public, private, err := minisign.GenerateKey(rand.Reader)
	require.NoError(s.t, err)
	keys, err := signature.ParseKeys(public.String())
	require.NoError(s.t, err)
	return func(f File) File {
		content, err := os.ReadFile(strings.TrimPrefix(f.URL, "file://"))
		require.NoError(s.t, err)
		r := minisign.NewReader(strings.NewReader(string(content)))
		_, err = r.Read(make([]byte, len(content)))
		require.NoError(s.t, err)
		f.Signature = &Signature{URL: f.URL + ".minisig", Trust: signature.Trust{Keys: keys}}
		require.NoError(s.t, os.WriteFile(strings.TrimPrefix(f.Signature.URL, "file://"), r.Sign(private), 0o600))
		return f
	}
}

// tree is what is laid out for people, by path.
func (s *shop) tree(source string) map[string]string {
	return s.filesIn(filepath.Join("sources", source, "firmware-binaries"))
}

// everything is every file of the store by path, but for when signatures were made.
func (s *shop) everything() map[string]string { return s.filesIn(".") }

func (s *shop) filesIn(dir string) map[string]string {
	out := map[string]string{}
	require.NoError(s.t, fs.WalkDir(os.DirFS(s.root), dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(s.root, path))
		out[path] = string(content)
		return err
	}))
	return out
}

// requireSound: what has a name is whole.
func (s *shop) requireSound() {
	blobs, err := os.ReadDir(filepath.Join(s.root, "blobs"))
	require.NoError(s.t, err)
	for _, b := range blobs {
		content, err := os.ReadFile(filepath.Join(s.root, "blobs", b.Name()))
		require.NoError(s.t, err)
		assert.Equal(s.t, fmt.Sprintf("%x", sha256.Sum256(content)), b.Name())
	}
	known, err := s.store.readMetadata("cx")
	if err == nil {
		for _, f := range known.Files {
			for _, i := range f.Images {
				digest, err := inventory.ParseDigest(i.Digest)
				require.NoError(s.t, err)
				s.content(digest)
				statement, err := s.store.Statement(digest)
				require.NoError(s.t, err)
				assert.Equal(s.t, len(f.Signature) > 0, len(statement.Claims) > 0, "a node can verify what the source lists as signed")
			}
		}
	}
}
