package nvmectrl

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Image is firmware for a drive. Its bytes are a header, the payload, and filling up to a multiple of 4096 bytes.
type Image struct {
	// Model is the one drive model the firmware is for.
	Model string
	// Revision becomes the drive's firmware revision, at most 8 characters.
	Revision string
	// Security is that of Slot.
	Security uint32
	Payload  []byte
}

// The header: magic 8, model 40, revision 8, security 4, size of the image 4, length of the payload 4, reserved 4,
// SHA-256 of the image with zeroes in its place 32.
const (
	imageMagic  = "LABNVMFW"
	imageHeader = 104
	imageSum    = imageHeader - sha256.Size
	imageUnit   = PageSize
)

// MakeImage makes the bytes of an image. Equal images have equal bytes.
func MakeImage(i Image) ([]byte, error) {
	if !printable(i.Model, modelLength) || !printable(i.Revision, revisionLength) {
		return nil, errors.New("make image: model and revision are printable, of at most 40 and 8 characters")
	}
	size := (imageHeader + len(i.Payload) + imageUnit - 1) / imageUnit * imageUnit
	if size > maxImage {
		return nil, fmt.Errorf("make image: %d bytes are more than a drive takes", size)
	}
	b := make([]byte, 0, size)
	b = append(b, imageMagic...)
	b = append(b, padded(i.Model, modelLength)...)
	b = append(b, padded(i.Revision, revisionLength)...)
	b = binary.LittleEndian.AppendUint32(b, i.Security)
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(i.Payload)))
	b = append(b[:imageHeader], i.Payload...)
	b = append(b, bytes.Repeat([]byte{0xff}, size-len(b))...)
	sum := sha256.Sum256(b)
	copy(b[imageSum:], sum[:])
	return b, nil
}

// ParseImage reads an image as a drive does at commit. What follows the image is not looked at.
func ParseImage(b []byte) (Image, error) {
	if len(b) < imageUnit || !bytes.HasPrefix(b, []byte(imageMagic)) {
		return Image{}, errors.New("parse image: not an image of a lab drive")
	}
	size, payload := binary.LittleEndian.Uint32(b[60:]), binary.LittleEndian.Uint32(b[64:])
	if size%imageUnit != 0 || size < imageUnit || uint64(size) > uint64(len(b)) || payload > size-imageHeader {
		return Image{}, fmt.Errorf("parse image: %d bytes of an image of %d are there", len(b), size)
	}
	hash := sha256.New()
	hash.Write(b[:imageSum])
	hash.Write(make([]byte, sha256.Size))
	hash.Write(b[imageHeader:size])
	if !bytes.Equal(hash.Sum(nil), b[imageSum:imageHeader]) {
		return Image{}, errors.New("parse image: wrong checksum")
	}
	i := Image{
		Model:    strings.TrimRight(string(b[8:48]), " "),
		Revision: strings.TrimRight(string(b[48:56]), " "),
		Security: binary.LittleEndian.Uint32(b[56:]),
		Payload:  bytes.Clone(b[imageHeader : imageHeader+payload]),
	}
	if !printable(i.Model, modelLength) || !printable(i.Revision, revisionLength) {
		return Image{}, errors.New("parse image: model or revision is not printable")
	}
	return i, nil
}

// acceptFor judges an image as firmware for a drive of the model.
func acceptFor(model string, b []byte) (Slot, error) {
	image, err := ParseImage(b)
	if err == nil && image.Model != model {
		err = fmt.Errorf("the image is for model %q", image.Model)
	}
	if err != nil {
		return Slot{}, err
	}
	sum := sha256.Sum256(b[:binary.LittleEndian.Uint32(b[60:])])
	return Slot{Revision: image.Revision, Digest: hex.EncodeToString(sum[:]), Security: image.Security}, nil
}

// printable reports whether an ASCII field of the drive can hold s.
func printable(s string, length int) bool {
	outside := func(r rune) bool { return r < ' ' || r > '~' }
	return s != "" && len(s) <= length && !strings.ContainsFunc(s, outside) && strings.TrimRight(s, " ") == s
}

// padded is an ASCII field of the drive: filled up with spaces, and cut off at its length.
func padded(s string, length int) []byte { return fmt.Appendf(nil, "%-*.*s", length, length, s) }
