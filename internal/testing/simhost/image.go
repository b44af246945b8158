package simhost

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
)

// ImageKind is the format of an image, which decides the tool that understands it.
type ImageKind string

// The kinds of images.
const (
	NICImage  ImageKind = "nic"
	NVMeImage ImageKind = "nvme"
	SCSIImage ImageKind = "scsi"
	BIOSImage ImageKind = "bios"
	ATAImage  ImageKind = "ata"
)

// ImageOptions say what an image is for.
type ImageOptions struct {
	Version string
	// PSID of a NIC image.
	PSID string
	// Model of an NVMe or SCSI image, exactly as the drive reports it.
	Model string
	// GUID of a BIOS image: the fw_class it is for. Of an image of a SATA drive: SATA.GUID.
	GUID string
	// LinkDown makes a valid NIC image with bad firmware: the links of a card are down while the card runs it.
	LinkDown bool
	// Recovery makes a NIC image whose firmware does not start: a card that runs it comes up in flash recovery, where
	// it is a memory controller without ports that reports nothing about itself.
	Recovery bool
	// Size in bytes, rounded up to a multiple of 4; 64 KiB when zero.
	Size int
	// Seed varies the bytes of images of the same version.
	Seed uint64
}

// Image is the header of an image.
type Image struct {
	Kind                       ImageKind
	Version, PSID, Model, GUID string
	LinkDown, Recovery         bool
	// Digest is the SHA-256 of all bytes, in hexadecimal with "sha256:" in front.
	Digest string
}

const (
	imageMagic       = "MTFWsimulated\n"
	defaultImageSize = 64 << 10
	linksDown        = "down"
	startsNever      = "never"
)

// BuildImage makes an image that the tools of a machine accept for the part it names. Equal arguments give equal bytes.
func BuildImage(kind ImageKind, o ImageOptions) []byte {
	payload := buildPayload(kind, o)
	if kind != BIOSImage && kind != ATAImage {
		return payload
	}
	return buildCabinet([]cabFile{
		{name: "firmware.metainfo.xml", data: metainfo(kind, o, payload)},
		{name: "firmware.bin", data: payload},
	})
}

func buildPayload(kind ImageKind, o ImageOptions) []byte {
	var b bytes.Buffer
	b.WriteString(imageMagic)
	defect := func(is bool, value string) string {
		if is {
			return value
		}
		return ""
	}
	for _, f := range [][2]string{
		{"kind", string(kind)}, {"version", o.Version}, {"psid", o.PSID}, {"model", o.Model}, {"guid", o.GUID},
		{"links", defect(o.LinkDown, linksDown)}, {"start", defect(o.Recovery, startsNever)},
	} {
		if f[1] != "" {
			fmt.Fprintf(&b, "%s: %s\n", f[0], f[1])
		}
	}
	b.WriteString("\n")
	size := o.Size
	if size == 0 {
		size = defaultImageSize
	}
	size = max(size, b.Len()+sha256.Size)
	size = (size + 3) &^ 3
	filler := splitmix(o.Seed ^ binary.LittleEndian.Uint64(sum(b.Bytes())))
	for b.Len() < size-sha256.Size {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], filler())
		b.Write(word[:min(8, size-sha256.Size-b.Len())])
	}
	return append(b.Bytes(), sum(b.Bytes())...)
}

// ParseImage reads an image and checks that it is complete.
func ParseImage(data []byte) (Image, error) {
	img, payload := Image{Digest: digest(data)}, data
	if bytes.HasPrefix(data, []byte(cabMagic)) {
		files, err := parseCabinet(data)
		if err != nil {
			return Image{}, err
		}
		for _, f := range files {
			if f.name == "firmware.bin" {
				payload = f.data
			}
		}
	}
	rest, ok := bytes.CutPrefix(payload, []byte(imageMagic))
	head, _, whole := bytes.Cut(rest, []byte("\n\n"))
	if !ok || !whole || len(payload) < sha256.Size {
		return Image{}, fmt.Errorf("parse image: no header")
	}
	body, trailer := payload[:len(payload)-sha256.Size], payload[len(payload)-sha256.Size:]
	if !bytes.Equal(sum(body), trailer) {
		return Image{}, fmt.Errorf("parse image: wrong checksum")
	}
	for line := range strings.SplitSeq(string(head), "\n") {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "kind":
			img.Kind = ImageKind(value)
		case "version":
			img.Version = value
		case "psid":
			img.PSID = value
		case "model":
			img.Model = value
		case "guid":
			img.GUID = value
		case "links":
			img.LinkDown = value == linksDown
		case "start":
			img.Recovery = value == startsNever
		}
	}
	return img, nil
}

// splitmix is the SplitMix64 generator: filler only has to be incompressible and repeatable.
func splitmix(state uint64) func() uint64 {
	return func() uint64 {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
}

func sum(b []byte) []byte {
	s := sha256.Sum256(b)
	return s[:]
}

func digest(b []byte) string { return fmt.Sprintf("sha256:%x", sum(b)) }
