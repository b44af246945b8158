package imageinfo

import (
	"encoding/binary"
	"slices"
)

// The places of the parts of the images that are built here.
const (
	tocPlace     = 0x1000
	infoPlace    = 0x1400 // of FS3
	fs4InfoPlace = 0x3000
	fs4Size      = 0x6000
)

// adapter is what an image says of itself.
type adapter struct {
	version [3]uint16
	psid    string
}

// fs3 builds an image that the real tool takes for one of a ConnectX-4: boot code, a table of contents, and the sections that say
// what it is, whose it is and who made it.
func (a adapter) fs3() []byte {
	image := make([]byte, 0x2000)
	copy(image, fs3Magic)
	image[fs3VersionAt] = fs3Version
	putBoot(image[fs3Boot:])
	a.putInfo(image[infoPlace:], 521)
	a.putOrigin(image, 0x1800, 0x1a00)
	putTOC(image, "ITOC", tocPlace, []tocEntry{{0x1, 0x1c00, 0x10, 0}, {mlxInfo, infoPlace, mlxInfoSize, 0}, {0xe0, 0x1800, 0x140, 2}, {0xe1, 0x1a00, 0x200, 2}})
	return image
}

// fs4 builds an image that the real tool takes for one of a ConnectX-6 Dx: pointers, boot code, a table of contents of the firmware
// and one of the device.
func (a adapter) fs4() []byte {
	be := binary.BigEndian
	image := make([]byte, fs4Size)
	copy(image, fs4Magic)
	image[fs4VersionAt] = fs4Version
	for i := range 16 {
		entry := image[fs4Pointers+8*i:][:8]
		to, ok := map[int]uint32{1: 0x400, fs4TOC: tocPlace, 3: 0x200, fs4InfoPtr: fs4InfoPlace}[i]
		if !ok {
			copy(entry, "\xff\xff\xff\xff\xff\xff\xff\xff")
			continue
		}
		be.PutUint32(entry, to)
		be.PutUint32(entry[4:], uint32(pointerSum(entry)))
	}
	tools := image[0x200:0x240]
	be.PutUint16(tools[4:], 23) // the size of a slot of the flash, as a power of two
	be.PutUint16(tools[62:], mlxSum(tools[:60]))
	putBoot(image[0x400:])
	a.putInfo(image[fs4InfoPlace:], 530)
	putTOC(image, "ITOC", tocPlace, []tocEntry{{0x1, 0x3800, 0x10, 0}, {mlxInfo, fs4InfoPlace, mlxInfoSize, 0}})
	a.putOrigin(image, 0x4000, 0x4200)
	putTOC(image, "DTOC", fs4Size-mlxSector, []tocEntry{{0xe0, 0x4000, 0x140, 0}, {0xe1, 0x4200, 0x200, 0}})
	return image
}

// encrypted builds an FS4 image of which only the section that says what it is can be read.
func (a adapter) encrypted() []byte {
	image := a.fs4()
	for i := range image[tocPlace:fs4InfoPlace] {
		image[tocPlace+i] = byte(i*7 + 1)
	}
	binary.BigEndian.PutUint32(image[fs4InfoPlace+0x12c:], fs4Size) // how much of it is burned
	return image
}

// fs5 builds an FS5 image: of an FS4 one it has the pointers and the section that says what it is.
func (a adapter) fs5() []byte {
	image := a.encrypted()
	image[fs4VersionAt] = fs5Version
	return image
}

func putBoot(at []byte) {
	binary.BigEndian.PutUint32(at[4:], 12)
	binary.BigEndian.PutUint16(at[62:], mlxSum(at[:60]))
}

func (a adapter) putInfo(at []byte, chip uint32) {
	be := binary.BigEndian
	be.PutUint16(at[0x04:], a.version[0])
	be.PutUint16(at[0x08:], a.version[1])
	be.PutUint16(at[0x0a:], a.version[2])
	copy(at[0x24:0x34], a.psid)
	be.PutUint32(at[0x118:], chip)
}

// putOrigin writes the sections that say who made the adapter and whose it is.
func (a adapter) putOrigin(image []byte, made, device int) {
	copy(image[made:made+16], a.psid)
	image[made+0x1c] = 1
	copy(image[device:], "mDevInfo\x23\x42\xca\xfa\xba\xca\xfe\x00")
	image[device+0x12] = 2
}

// tocEntry is an entry of a table of contents.
type tocEntry struct {
	kind     byte
	at, size uint32
	flags    byte
}

func putTOC(image []byte, name string, at int, entries []tocEntry) {
	be := binary.BigEndian
	toc := image[at:]
	copy(toc, name+mlxTOC[len(name):])
	be.PutUint16(toc[mlxTOCHeader-2:], mlxSum(toc[:mlxTOCHeader-4]))
	for i, s := range entries {
		entry := toc[mlxTOCHeader+i*mlxEntry:][:mlxEntry]
		be.PutUint32(entry, uint32(s.kind)<<24|s.size)
		be.PutUint32(entry[0x14:], s.at)
		entry[0x19] = s.flags
		be.PutUint16(entry[0x1a:], mlxSum(image[s.at:s.at+s.size]))
		be.PutUint16(entry[mlxEntry-2:], mlxSum(entry[:mlxEntry-4]))
	}
	copy(toc[mlxTOCHeader+len(entries)*mlxEntry:], slices.Repeat([]byte{0xff}, mlxEntry))
}
