package rootfs_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/rootfs"
)

func TestArchiveIsTheKernelsFormat(t *testing.T) {
	from := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(from, "tool"), []byte("#!"), 0o755)) //nolint:gosec // a program
	require.NoError(t, os.Symlink("tool", filepath.Join(from, "alias")))
	var out bytes.Buffer
	a := rootfs.NewArchive(&out)
	a.File("etc/lab/a", 0o600, []byte("one"))
	a.Link("usr/bin/systemctl", "/init")
	a.Tree("usr/share", from)
	require.NoError(t, a.Close())
	assert.Zero(t, out.Len()%4)
	assert.Equal(t, []entry{
		{"etc", 0o040755, ""}, {"etc/lab", 0o040755, ""}, {"etc/lab/a", 0o100600, "one"}, {"usr", 0o040755, ""},
		{"usr/bin", 0o040755, ""}, {"usr/bin/systemctl", 0o120777, "/init"}, {"usr/share", 0o040755, ""},
		{"usr/share/alias", 0o120777, "tool"}, {"usr/share/tool", 0o100755, "#!"},
	}, entries(t, out.Bytes()))
}

func TestArchivingMissingFileFails(t *testing.T) {
	a := rootfs.NewArchive(&bytes.Buffer{})
	a.Copy("init", filepath.Join(t.TempDir(), "missing"))
	a.File("etc/a", 0o600, nil)
	require.ErrorIs(t, a.Close(), os.ErrNotExist)
}

// Another implementation reads it, where there is one.
func TestArchiveIsReadByCpio(t *testing.T) {
	cpio, err := exec.LookPath("cpio")
	if err != nil {
		t.Skip("cpio is not installed")
	}
	var out bytes.Buffer
	a := rootfs.NewArchive(&out)
	a.File("etc/a", 0o600, []byte("one"))
	require.NoError(t, a.Close())
	c := exec.CommandContext(t.Context(), cpio, "--quiet", "-it")
	c.Stdin = &out
	list, err := c.Output()
	require.NoError(t, err)
	assert.Equal(t, "etc\netc/a\n", string(list))
}

type entry struct {
	name    string
	mode    uint64
	content string
}

// entries reads the format by its description: a header of 13 fields of eight hexadecimal digits behind a magic number.
func entries(t *testing.T, raw []byte) []entry {
	t.Helper()
	var out []entry
	for {
		require.Equal(t, "070701", string(raw[:6]))
		field := func(i int) uint64 {
			var v uint64
			for _, c := range raw[6+8*i : 14+8*i] {
				v = v<<4 | uint64(bytes.IndexByte([]byte("0123456789abcdef"), c))
			}
			return v
		}
		mode, size, nameSize := field(1), field(6), field(11)
		name := string(raw[110 : 110+nameSize-1])
		raw = raw[(110+nameSize+3)/4*4:]
		if name == "TRAILER!!!" {
			return out
		}
		out = append(out, entry{name, mode, string(raw[:size])})
		raw = raw[(size+3)/4*4:]
	}
}
