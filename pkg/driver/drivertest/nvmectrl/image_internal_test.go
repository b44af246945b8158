package nvmectrl

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func FuzzParseImage(f *testing.F) {
	image, err := MakeImage(Image{Model: "lab drive", Revision: "1.0", Payload: []byte("payload")})
	require.NoError(f, err)
	f.Add(image)
	f.Add(image[:imageHeader])
	huge := bytes.Clone(image)
	binary.LittleEndian.PutUint32(huge[60:], 0xfffff000)
	f.Add(huge)
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := ParseImage(b)
		if err != nil {
			return
		}
		assert.LessOrEqual(t, len(i.Payload), len(b))
		slot, err := acceptFor(i.Model, b)
		assert.NoError(t, err)
		assert.Len(t, slot.Digest, 64)
	})
}

func TestImagesRoundTrip(t *testing.T) {
	for _, size := range []int{0, 1, imageUnit - imageHeader, imageUnit - imageHeader + 1, 100 << 10} {
		want := Image{Model: "lab drive", Revision: "12345678", Security: 7, Payload: bytes.Repeat([]byte{9}, size)}
		b, err := MakeImage(want)
		require.NoError(t, err)
		assert.Zero(t, len(b)%imageUnit)
		got, err := ParseImage(append(b, make([]byte, 100)...))
		require.NoError(t, err)
		assert.Equal(t, want.Model, got.Model)
		assert.Equal(t, want.Revision, got.Revision)
		assert.Equal(t, want.Security, got.Security)
		assert.True(t, bytes.Equal(want.Payload, got.Payload))
		for _, at := range []int{0, 8, 48, 56, 60, 64, 68, imageSum, imageHeader, len(b) - 1} {
			damaged := bytes.Clone(b)
			damaged[at] ^= 0x10
			_, err := ParseImage(damaged)
			assert.Error(t, err, "byte %d of %d", at, len(b))
		}
	}
	for name, i := range map[string]Image{
		"long revision":        {Model: "m", Revision: "123456789"},
		"no model":             {Revision: "1"},
		"not ASCII":            {Model: "ü", Revision: "1"},
		"blanks at the end":    {Model: "m ", Revision: "1"},
		"more than a drive is": {Model: "m", Revision: "1", Payload: make([]byte, maxImage)},
	} {
		_, err := MakeImage(i)
		assert.Error(t, err, name)
	}
}
