package archive

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

const someBoot = "0a1b2c3d-0000-4000-8000-000000000001"

// TestEntryNamesAreParsedExactly proves R002-34.
func TestEntryNamesAreParsedExactly(t *testing.T) {
	seen := map[string]entryName{}
	for _, version := range []string{
		"22.39.1", "22.39.10", "1_2", "1_unhealthy", "1", "a/b", "a b", "..", ".", ".tmp-1", "%", "%5F", "_", "v1~rc+2:3", "\x00é", "unhealthy",
	} {
		for _, unhealthy := range []bool{false, true} {
			want := entryName{inventory.Version(version), someBoot, unhealthy}
			s := want.String()
			assert.NotContains(t, s, "/")
			assert.False(t, strings.HasPrefix(s, "."), s)
			got, ok := parseName(s)
			require.True(t, ok, s)
			assert.Equal(t, want, got)
			other, twice := seen[s]
			assert.False(t, twice, "%v and %v are both %s", want, other, s)
			seen[s] = want
		}
	}
}

// TestWhatIsNoEntryNameIsNotOurs proves R002-34.
func TestWhatIsNoEntryNameIsNotOurs(t *testing.T) {
	for _, s := range []string{
		"", "_", "1", "1_", "_b", "1_b_", "1_b_sick", "1_b_Unhealthy", "1_b_unhealthy_", "1_b_unhealthy_2", "1_b.bak_x", "1 2_b", "%5f_b", "%31_b",
		"%_b", "%4_b", ".tmp-1_b", "1_b_unhealthy_unhealthy", "a\u00e9_b",
	} {
		_, ok := parseName(s)
		assert.False(t, ok, "%q", s)
	}
}

func FuzzEntryName(f *testing.F) {
	for _, s := range []string{"1_b", "%2E1_b_unhealthy", "a%5Fb_c", "_", "%%_%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, ok := parseName(s); ok {
			require.Equal(t, s, n.String())
		}
		n := entryName{inventory.Version("v" + s), "b" + s, len(s)%2 == 0}
		back, ok := parseName(n.String())
		require.True(t, ok)
		require.Equal(t, n, back)
	})
}

func TestDirectoriesDifferAndFit(t *testing.T) {
	long := strings.Repeat("/", 100)
	dirs := map[string]bool{}
	for _, id := range []string{"nic-b83fd2000010", "a/b", "a%2Fb", "..", ".", "A", "a", long, long + "/", strings.Repeat("%2F", 100)} {
		dir := deviceDir(id)
		assert.LessOrEqual(t, len(dir), maxName)
		assert.NotContains(t, dir, "/")
		assert.False(t, strings.HasPrefix(dir, "."))
		assert.False(t, dirs[dir], id)
		dirs[dir] = true
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"uniqueID":"u","class":"NIC","version":"1","bootID":"b","rollback":1,"digest":"sha256:00","size":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parseManifest(raw)
		if err == nil {
			require.NoError(t, m.complete())
			require.Positive(t, m.Size)
			_, err = inventory.ParseDigest(m.Digest)
			require.NoError(t, err)
		}
	})
}
