package erase

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/pkg/host"
)

// The places are within the volume, none twice, as many as asked for as far as there are, with its beginning and its very end, and the same for
// the same seed.
func TestPlacesOfAnyVolume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(blockSize/512, 1<<36).Draw(t, "sectors") * 512
		count, seed := rapid.IntRange(atLeast, samples).Draw(t, "count"), rapid.Uint64().Draw(t, "seed")
		at := places(seed, 1, count, size)
		assert.GreaterOrEqual(t, len(at), int(min(int64(count), size/blockSize)))
		assert.LessOrEqual(t, len(at), max(count, 5))
		seen := map[int64]bool{}
		for _, offset := range at {
			assert.False(t, seen[offset])
			seen[offset] = true
			assert.GreaterOrEqual(t, offset, int64(0))
			assert.LessOrEqual(t, offset, size-blockSize)
			assert.Zero(t, offset%512)
		}
		assert.True(t, seen[0] && seen[size-blockSize])
		assert.Equal(t, at, places(seed, 1, count, size))
	})
}

func TestBlockThatLooksLikeSomething(t *testing.T) {
	at := func(offset int, text string) []byte {
		b := make([]byte, blockSize)
		copy(b[offset:], text)
		return b
	}
	ext := make([]byte, blockSize)
	ext[1024+56], ext[1024+57] = 0x53, 0xef
	for name, block := range map[string][]byte{
		"a LUKS header": at(0, "LUKS\xba\xbe"), "an XFS file system": at(0, "XFSB"), "a Ceph OSD": at(0, "bluestore block device"),
		"an NTFS file system": at(3, "NTFS    "), "an LVM physical volume": at(512, "LABELONE"), "a partition table": at(512, "EFI PART"),
		"swap space": at(blockSize-10, "SWAPSPACE2"), "a btrfs file system": at(64, "_BHRfS_M"), "an ext file system": ext,
	} {
		assert.Equal(t, name, looksLike(block))
	}
	assert.Equal(t, "a partition table", looksLike(at(blockSize-512, "EFI PART")), "the copy at the end of the drive")
	assert.Empty(t, looksLike(make([]byte, blockSize)))
	random := rand.NewChaCha8([32]byte{7})
	block := make([]byte, blockSize)
	for range 10000 {
		_, _ = random.Read(block)
		assert.Empty(t, looksLike(block))
	}
}

func volume(id string, data []byte) host.Volume {
	return host.Volume{Name: "nvme0n" + id, ID: id, Size: int64(len(data)), ReaderAt: bytes.NewReader(data), Closer: io.NopCloser(nil)}
}

// What is kept of a drive with as many namespaces as can be sampled fits into what a step may keep.
func TestWhatIsKeptFits(t *testing.T) {
	const room = 4096
	data := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{3}).Read(data)
	var volumes []host.Volume
	for range most {
		volumes = append(volumes, volume(strings.Repeat("e", 40), data))
	}
	spaces, err := sample(volumes, 1)
	require.NoError(t, err)
	kept, err := json.Marshal(kept{Method: "Overwrite", Seed: 1<<64 - 1, Spaces: spaces})
	require.NoError(t, err)
	assert.LessOrEqual(t, len(kept), room)
	_, err = sample(append(volumes, volumes[0]), 1)
	require.ErrorContains(t, err, "the drive has 17 block devices, and at most 16 can be sampled")
}

func TestSampleOfWhatHasNoRoomIsRefused(t *testing.T) {
	_, err := sample([]host.Volume{volume("1", make([]byte, 2048))}, 1)
	require.ErrorContains(t, err, "nvme0n1 has 2048 bytes, of which no sample can be read")
}

func TestAnotherDriveProvesNothing(t *testing.T) {
	data := bytes.Repeat([]byte("secret! "), 1<<17)
	before, err := sample([]host.Volume{volume("1", data)}, 1)
	require.NoError(t, err)
	for says, now := range map[string][]host.Volume{
		"is not the one that was sampled before": {volume("2", make([]byte, len(data)))},
		"block device 1 is not the one":          {volume("1", make([]byte, 2*len(data)))},
		"has 2 block devices, and had 1 before":  {volume("1", make([]byte, len(data))), volume("2", make([]byte, len(data)))},
		"still has at byte 0 what was there":     {volume("1", data)},
	} {
		_, err := compare(now, before, 1)
		require.ErrorContains(t, err, says)
	}
	found, err := compare([]host.Volume{volume("1", make([]byte, len(data)))}, before, 1)
	require.NoError(t, err)
	assert.Equal(t, proof{read: samples, held: samples}, found)
	blank, err := sample([]host.Volume{volume("1", make([]byte, len(data)))}, 1)
	require.NoError(t, err)
	found, err = compare([]host.Volume{volume("1", make([]byte, len(data)))}, blank, 1)
	require.NoError(t, err)
	assert.Equal(t, proof{read: samples}, found)
}
