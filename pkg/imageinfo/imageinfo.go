package imageinfo

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/unpack"
)

// Firmware is one firmware of an image.
type Firmware struct {
	// Versions as the image spells them. Empty where its spelling is not that of a device.
	Versions []string `json:"versions,omitempty"`
	// Boards are the ids of the boards it is for: the GUIDs of a cabinet in lower case, or the PSID of an adapter.
	Boards []string `json:"boards,omitempty"`
	// GUIDs says that the boards are named by GUIDs. A device may have another id besides.
	GUIDs bool `json:"guids,omitempty"`
}

// ErrInvalid is what an error matches when the image contradicts its own format.
var ErrInvalid = errors.New("invalid image")

// Read returns the metadata embedded in the image; nil if its format has none or is unknown.
func Read(ctx context.Context, image *os.File) ([]Firmware, error) {
	var head [4]byte
	if _, err := image.ReadAt(head[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read image: %w", err)
	}
	switch string(head[:]) {
	case "MSCF":
		return cabinet(ctx, image)
	case "MTFW":
		info, err := image.Stat()
		if err != nil {
			return nil, fmt.Errorf("read image: %w", err)
		}
		return mellanox(image, info.Size())
	}
	return nil, nil
}

// maxMetainfo bounds one description in a cabinet, and maxMetainfos all of them: it takes longer to read them than to unpack them.
const maxMetainfo, maxMetainfos = 1 << 20, 16 << 20

// described is how the names of the descriptions in a cabinet for fwupd end.
const described = ".metainfo.xml"

// cabinet reads the descriptions of a cabinet for fwupd. A cabinet whose directory is sound and names no description is not for fwupd, but for a
// vendor's own tool, and says nothing.
func cabinet(ctx context.Context, image *os.File) ([]Firmware, error) {
	names, err := unpack.CabinetNames(ctx, image)
	if err != nil {
		return nil, unreadable(ctx, err)
	}
	if !slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, described) }) {
		return nil, nil
	}
	var out []Firmware
	left := int64(maxMetainfos)
	err = unpack.Walk(ctx, image, unpack.Cabinet, unpack.Limits{}, func(name string, open func() (io.Reader, error)) error {
		if !strings.HasSuffix(name, described) {
			return nil
		}
		r, err := open()
		if err != nil {
			return err
		}
		text := &io.LimitedReader{R: r, N: min(maxMetainfo, left)}
		left -= text.N
		f, err := metainfo(text)
		left += text.N
		if err != nil {
			return fmt.Errorf("%w: read %s: %w", ErrInvalid, name, err)
		}
		out = append(out, f)
		return nil
	})
	if err != nil {
		return nil, unreadable(ctx, err)
	}
	return out, nil
}

// unreadable is the error of a cabinet that contradicts its format, unless it says nothing about the cabinet.
func unreadable(ctx context.Context, err error) error {
	if errors.As(err, new(*unpack.ReadError)) || errors.Is(err, ErrInvalid) || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrInvalid, err)
}

// component is the part of AppStream's metainfo that LVFS uses (https://lvfs.readthedocs.io/en/latest/metainfo.html).
type component struct {
	XMLName  xml.Name `xml:"component"`
	Type     string   `xml:"type,attr"`
	Provides struct {
		Firmware []struct {
			Type string `xml:"type,attr"`
			GUID string `xml:",chardata"`
		} `xml:"firmware"`
	} `xml:"provides"`
	Releases struct {
		Release []struct {
			Version string `xml:"version,attr"`
		} `xml:"release"`
	} `xml:"releases"`
}

var (
	guid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	// number is a version that fwupd spells in another way than the metainfo does.
	number = regexp.MustCompile(`^(0[xX][0-9a-fA-F]+|[0-9]+)$`)
)

// metainfo reads a description. Entities other than those of XML itself are an error, and nothing outside of it is read.
func metainfo(r io.Reader) (Firmware, error) {
	var c component
	if err := xml.NewDecoder(r).Decode(&c); err != nil {
		return Firmware{}, err
	}
	if c.Type != "firmware" {
		return Firmware{}, fmt.Errorf("it describes %q and not firmware", c.Type)
	}
	out := Firmware{GUIDs: true}
	for _, f := range c.Provides.Firmware {
		id := strings.ToLower(strings.TrimSpace(f.GUID))
		if !guid.MatchString(id) {
			return Firmware{}, fmt.Errorf("%.100q is no GUID", id)
		}
		out.Boards = append(out.Boards, id)
	}
	if len(out.Boards) == 0 {
		return Firmware{}, errors.New("it names no GUID")
	}
	if len(c.Releases.Release) == 0 {
		return Firmware{}, errors.New("it names no release")
	}
	for _, r := range c.Releases.Release {
		if r.Version != "" && !number.MatchString(r.Version) {
			out.Versions = append(out.Versions, r.Version)
		}
	}
	return out, nil
}
