package erase

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/host"
)

const (
	// samples is how many blocks of a drive are read, and atLeast how many of each of its volumes.
	samples = 64
	atLeast = 8
	// blockSize is their size in bytes.
	blockSize = 4096
	// most bounds the volumes of a drive: what is kept of each block must fit into what a step may keep.
	most = 16
	// hashSize is what is kept of the hash of a block in bytes. All zeros are a blank block.
	hashSize = 8
)

// space is what is kept of a volume.
type space struct {
	ID   string `json:"id"`
	Size int64  `json:"size"`
	// Hashes are those of its samples, in their order.
	Hashes []byte `json:"hashes"`
}

// places are where the samples of a volume are: where the data of file systems, partition tables and the like begins and ends, and blocks over
// the whole range. They are in no order, and none twice.
func places(seed uint64, volume, count int, size int64) []int64 {
	blocks := size / blockSize
	random := rand.New(rand.NewPCG(seed, uint64(volume))) //nolint:gosec // it need not be secret, but found again
	var out []int64
	add := func(offset int64) {
		if offset >= 0 && offset <= size-blockSize && !slices.Contains(out, offset) {
			out = append(out, offset)
		}
	}
	for _, offset := range []int64{0, blockSize, 16 * blockSize, 256 * blockSize, size - blockSize} {
		add(offset)
	}
	for int64(len(out)) < min(int64(count), blocks) {
		add(random.Int64N(blocks) * blockSize)
	}
	return out
}

// perVolume is how many samples of each of so many volumes are read.
func perVolume(volumes int) int { return max(samples/volumes, atLeast) }

// byID orders volumes by what a reboot does not change.
func byID(volumes []host.Volume) []host.Volume {
	return slices.SortedFunc(slices.Values(volumes), func(a, b host.Volume) int { return strings.Compare(a.ID, b.ID) })
}

// sample reads the samples of all volumes.
func sample(volumes []host.Volume, seed uint64) ([]space, error) {
	if len(volumes) > most {
		return nil, fmt.Errorf("the drive has %d block devices, and at most %d can be sampled", len(volumes), most)
	}
	var out []space
	for i, v := range byID(volumes) {
		s := space{ID: v.ID, Size: v.Size}
		if v.Size < blockSize {
			return nil, fmt.Errorf("%s has %d bytes, of which no sample can be read", v.Name, v.Size)
		}
		for _, at := range places(seed, i, perVolume(len(volumes)), v.Size) {
			block, err := read(v, at)
			if err != nil {
				return nil, err
			}
			s.Hashes = append(s.Hashes, hash(block)...)
		}
		out = append(out, s)
	}
	return out, nil
}

func read(v host.Volume, at int64) ([]byte, error) {
	block := make([]byte, blockSize)
	n, err := v.ReadAt(block, at)
	if n < len(block) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read %s at byte %d: %w", v.Name, at, err)
	}
	return block, nil
}

// hash is what is kept of a block.
func hash(block []byte) []byte {
	if blank(block) {
		return make([]byte, hashSize)
	}
	sum := sha256.Sum256(block)
	sum[0] |= 1 // so that it is none of a blank block
	return sum[:hashSize]
}

// blank reports whether a block has one value only, as one that was never written or was overwritten.
func blank(block []byte) bool {
	return len(bytes.Trim(block, string(block[:1]))) == 0
}

// proof is what the samples after an erasure show.
type proof struct {
	// read is how many were read, held how many of them held data before.
	read, held int
}

// compare reads the samples again. The error says what is left of the data, or why that is not known.
func compare(volumes []host.Volume, before []space, seed uint64) (proof, error) {
	var p proof
	if len(volumes) != len(before) {
		return p, fmt.Errorf("the drive has %d block devices, and had %d before", len(volumes), len(before))
	}
	for i, v := range byID(volumes) {
		was := before[i]
		at := places(seed, i, perVolume(len(volumes)), v.Size)
		if v.ID != was.ID || v.Size != was.Size || len(was.Hashes) != hashSize*len(at) {
			return p, fmt.Errorf("its block device %s is not the one that was sampled before", v.ID)
		}
		for n, offset := range at {
			block, err := read(v, offset)
			if err != nil {
				return p, err
			}
			old := was.Hashes[n*hashSize:][:hashSize]
			p.read++
			if !blank(old) {
				p.held++
				if bytes.Equal(old, hash(block)) {
					return p, fmt.Errorf("%s still has at byte %d what was there before", v.Name, offset)
				}
			}
			if name := looksLike(block); name != "" {
				return p, fmt.Errorf("%s has at byte %d what looks like %s", v.Name, offset, name)
			}
		}
	}
	return p, nil
}

// magics are how file systems and the like begin. Those of fewer than four bytes would be found in random data.
var magics = []struct {
	at   int
	text string
	name string
}{
	{0, "LUKS\xba\xbe", "a LUKS header"},
	{0, "XFSB", "an XFS file system"},
	{0, "bluestore block device", "a Ceph OSD"},
	{0, "\xfc\x4e\x2b\xa9", "a member of an md array"},
	{0, "hsqs", "a squashfs image"},
	{3, "NTFS    ", "an NTFS file system"},
	{3, "EXFAT   ", "an exFAT file system"},
	{54, "FAT1", "a FAT file system"},
	{64, "_BHRfS_M", "a btrfs file system"},
	{82, "FAT32   ", "a FAT file system"},
	{512, "EFI PART", "a partition table"},
	{512, "LABELONE", "an LVM physical volume"},
	{blockSize - 512, "EFI PART", "a partition table"},
	{blockSize - 10, "SWAPSPACE2", "swap space"},
}

// looksLike names what a block looks like; empty where it looks like nothing known.
func looksLike(block []byte) string {
	for _, m := range magics {
		if string(block[m.at:][:len(m.text)]) == m.text {
			return m.name
		}
	}
	le := binary.LittleEndian
	// ext2, 3 and 4: the superblock at 1024 has its magic at 56, a block size up to 64 KiB and a known state.
	if super := block[1024:]; le.Uint16(super[56:]) == 0xef53 && le.Uint32(super[24:]) <= 6 && le.Uint16(super[58:]) <= 7 && le.Uint32(super[76:]) <= 1 {
		return "an ext file system"
	}
	return ""
}
