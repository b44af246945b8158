package simhost

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestImagesSayWhatTheyAreFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := ImageOptions{
			Version: rapid.StringMatching(`[0-9A-Z.]{1,12}`).Draw(t, "version"),
			Size:    rapid.IntRange(0, 100_000).Draw(t, "size"),
			Seed:    rapid.Uint64().Draw(t, "seed"),
		}
		kind := rapid.SampledFrom([]ImageKind{NICImage, NVMeImage, SCSIImage, BIOSImage}).Draw(t, "kind")
		switch kind {
		case NICImage:
			o.PSID = rapid.StringMatching(`MT_[0-9]{10}`).Draw(t, "psid")
			o.LinkDown, o.Recovery = rapid.Bool().Draw(t, "link down"), rapid.Bool().Draw(t, "recovery")
		case BIOSImage:
			o.GUID = "39a1ba52-95ee-4c1c-8d0f-b2b4ec3f1c9e"
		default:
			o.Model = rapid.StringMatching(`[A-Z0-9 _-]{1,40}`).Draw(t, "model")
		}
		data := BuildImage(kind, o)
		img, err := ParseImage(data)
		require.NoError(t, err)
		assert.Equal(t, Image{kind, o.Version, o.PSID, o.Model, o.GUID, o.LinkDown, o.Recovery, digest(data)}, img)
		assert.Equal(t, data, BuildImage(kind, o), "equal arguments give equal bytes")
		if kind != BIOSImage {
			assert.Zero(t, len(data)%4)
		}

		at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
		_, err = ParseImage(data[:at])
		assert.Error(t, err, "truncated to %d of %d bytes", at, len(data))
		if kind != BIOSImage { // a cabinet has fields without meaning, such as the time of a file
			data[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			_, err = ParseImage(data)
			assert.Error(t, err, "flipped byte %d of %d", at, len(data))
		}
	})
}

func TestChecksEveryByteOfCabinet(t *testing.T) {
	whole := imageFor(BIOSKey, "2.11.0")
	files, err := parseCabinet(whole)
	require.NoError(t, err)
	require.Len(t, files, 2)
	assert.Contains(t, string(files[0].data), `<firmware type="flashed">39a1ba52-95ee-4c1c-8d0f-b2b4ec3f1c9e</firmware>`)
	assert.Contains(t, string(files[0].data), `version="2.11.0"`)
	at := bytes.Index(whole, []byte("<?xml"))
	for _, flip := range []int{at, at + 100, at + cabBlock + 100, len(whole) - 1} {
		broken := bytes.Clone(whole)
		broken[flip] ^= 0x10
		_, err := ParseImage(broken)
		assert.ErrorContains(t, err, "parse cabinet: invalid checksum", "byte %d of %d", flip, len(whole))
	}
}

func TestSeedChangesBytesNotVersion(t *testing.T) {
	a := BuildImage(NICImage, ImageOptions{Version: "1", PSID: "P"})
	b := BuildImage(NICImage, ImageOptions{Version: "1", PSID: "P", Seed: 1})
	assert.NotEqual(t, digest(a), digest(b))
}

func FuzzParseImage(f *testing.F) {
	for _, key := range []string{"nic0", "nvme0", BIOSKey} {
		f.Add(imageFor(key, "1.2.3"))
	}
	f.Add([]byte(cabMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		img, err := ParseImage(data)
		if err == nil {
			assert.NotEmpty(t, img.Digest)
		}
	})
}
