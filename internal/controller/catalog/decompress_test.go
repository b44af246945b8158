package catalog

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// xzIndex is an index with the version 1.1 for the NIC, made by xz -6 --check=crc32. xzLarge is the same with --lzma2=dict=64MiB.
const (
	xzIndex = "/Td6WFoAAAFpIt42AgAhARYAAAB0L+Wj4AB4AGxdAD2IimZ0AadfeDjZySPS2FzKRK5YLtvqWm16PEXAhZq5VsSxC+yskULKZALXEDe5I3S8EUEvFB7meE/WhWC2gMvAyXsr8ErC" +
		"Zjv+903ONv+9cRyVVtHBryrbRj0/ZjI+oJ9MbRugEC6xYyhpAAARalBMAAGEAXkAAAC1RCNtPjANiwIAAAAAAVla"
	xzLarge = "/Td6WFoAAAFpIt42AgAhARwAAAAQz1jM4AB4AGxdAD2IimZ0AadfeDjZySPS2FzKRK5YLtvqWm16PEXAhZq5VsSxC+yskULKZALXEDe5I3S8EUEvFB7meE/WhWC2gMvAyXsr8ErC" +
		"Zjv+903ONv+9cRyVVtHBryrbRj0/ZjI+oJ9MbRugEC6xYyhpAAARalBMAAGEAXkAAAC1RCNtPjANiwIAAAAAAVla"
)

func decoded(t *testing.T, text string) string {
	out, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	return string(out)
}

// zstdText compresses with a window of so many bytes.
func zstdText(t *testing.T, text string, window int) string {
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, zstd.WithWindowSize(window))
	require.NoError(t, err)
	_, err = z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Flush()) // so that the frame names its window and not its size
	require.NoError(t, z.Close())
	return out.String()
}

// Compressed catalogs are read as they are, whatever the name of the file, and what cannot be read is named.
func TestCatalogsAreDecompressed(t *testing.T) {
	plain := indexOf(nicEntry("1.1"))
	for name, c := range map[string]struct{ content, reason string }{
		"plain":                    {plain, "Succeeded"},
		"gzip":                     {gzipped(t, plain), "Succeeded"},
		"xz":                       {decoded(t, xzIndex), "Succeeded"},
		"zstd":                     {zstdText(t, plain, 8<<20), "Succeeded"},
		"gzip that is cut off":     {gzipped(t, plain)[:20], "DownloadFailed"},
		"xz that is cut off":       {decoded(t, xzIndex)[:60], "DownloadFailed"},
		"zstd that is cut off":     {zstdText(t, plain, 8<<20)[:40], "DownloadFailed"},
		"gzip that is none":        {"\x1f\x8b\x00" + plain, "InvalidCatalog"},
		"xz that is none":          {"\xfd7zXZ\x00" + plain, "InvalidCatalog"},
		"xz of too large a window": {decoded(t, xzLarge), "InvalidCatalog"},
		"zstd of too large a one":  {zstdText(t, plain, 64<<20), "InvalidCatalog"},
		"a cabinet":                {"MSCF", "InvalidCatalog"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", "PowerEdge R650", "1.0")
			w.look()
			w.edit(withIndex)
			w.net.answer[ours] = c.content
			w.discover()
			assert.Equal(t, c.reason, w.ready().Reason, w.ready().Message)
			if want := []string{"1.1"}; c.reason == "Succeeded" {
				assert.Equal(t, want, versionsOf(w.component(v1alpha1.ClassNIC)))
			} else {
				assert.Empty(t, w.component(v1alpha1.ClassNIC).Versions)
			}
		})
	}
}
