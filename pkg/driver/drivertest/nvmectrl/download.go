package nvmectrl

import "slices"

// Buffer is the pieces of the image that is being downloaded, in order of their offsets.
type Buffer struct {
	Pieces []Piece `json:",omitempty"`
	// Stale is set by a Firmware Commit: the next piece begins a new image.
	Stale bool `json:",omitempty"`
}

// Piece is a part of an image.
type Piece struct {
	Offset int
	Data   []byte
}

// Downloaded is a buffer that holds the beginning of an image, or all of it.
func Downloaded(image []byte) Buffer { return Buffer{Pieces: []Piece{{Data: image}}} }

func (p Piece) end() int { return p.Offset + len(p.Data) }

// add keeps a piece, unless it overlaps another.
func (b *Buffer) add(p Piece) Status {
	at, _ := slices.BinarySearchFunc(b.Pieces, p.Offset, func(q Piece, offset int) int { return q.Offset - offset })
	if at > 0 && b.Pieces[at-1].end() > p.Offset || at < len(b.Pieces) && p.end() > b.Pieces[at].Offset {
		return OverlappingRange
	}
	b.Pieces = slices.Insert(b.Pieces, at, p)
	return Success
}

// image joins the pieces; without ok there is a gap.
func (b *Buffer) image() (image []byte, ok bool) {
	for _, p := range b.Pieces {
		if p.Offset != len(image) {
			return nil, false
		}
		image = append(image, p.Data...)
	}
	return image, true
}

const (
	// maxImage is the size of the largest image that a controller takes.
	maxImage = 32 << 20
	// dword is the unit of offsets and lengths on the wire.
	dword = 4
)

// Download is the Firmware Image Download command. The pieces of an image may come in any order. The offset is in bytes.
func (c *Controller) Download(offset uint64, data []byte) Status {
	length, unit := uint64(len(data)), uint64(dword)
	if c.FWUG != 0 && c.FWUG != 0xff {
		unit = uint64(c.FWUG) * PageSize
	}
	switch {
	case c.NoDownload:
		return InvalidOpcode
	case c.Sanitize.Blocks() != Success:
		return c.Sanitize.Blocks()
	case length == 0 || length%dword != 0 || offset > maxImage || offset+length > maxImage,
		c.MDTS != 0 && length > PageSize<<c.MDTS,
		offset%unit != 0 || length%unit != 0 && !c.AnyLength:
		return InvalidField
	}
	// Section 5.12: the first download after a commit discards what is left of earlier ones.
	if c.Buffer.Stale || offset == 0 && c.RestartsAtZero {
		c.Buffer = Buffer{}
	}
	return c.Buffer.add(Piece{int(offset), data})
}
