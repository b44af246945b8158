package rootfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEditMustMatchOnce(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "dev.c")
	require.NoError(t, os.WriteFile(file, []byte("a = 1;\nb = 2;\nb = 2;\n"), 0o600))
	require.NoError(t, Edit{File: "dev.c", Old: "a = 1", New: "a = 3"}.apply(dir))
	require.ErrorContains(t, Edit{File: "dev.c", Old: "b = 2", New: "b = 4"}.apply(dir), "2 places")
	require.ErrorContains(t, Edit{File: "dev.c", Old: "c = 5"}.apply(dir), "0 places")
	require.ErrorIs(t, Edit{File: "missing.c"}.apply(dir), os.ErrNotExist)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "a = 3;\nb = 2;\nb = 2;\n", string(raw))
}

func TestHeadersUnpackedElsewhereFindEachOther(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "usr/src/linux-headers-6.1.0-56-amd64"), 0o755))
	dir, err := relocateHeaders(root, "6.1.0-56-amd64")
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(dir, "Makefile"))
	require.NoError(t, err)
	assert.Equal(t, "include "+root+"/usr/src/linux-headers-6.1.0-56-common/Makefile\n", string(raw))
}
