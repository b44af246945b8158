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
	"strconv"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/unpack"
)

// Firmware is one firmware of an image.
type Firmware struct {
	// Versions as the image spells them, and where it has a number, all spellings of that which a device may report. Empty where it says none.
	Versions []string `json:"versions,omitempty"`
	// Boards are the ids of the boards it is for: the GUIDs of a cabinet or capsule in lower case, or the PSID of an adapter.
	Boards []string `json:"boards,omitempty"`
	// GUIDs says that the boards are named by GUIDs. A device may have another id besides.
	GUIDs bool `json:"guids,omitempty"`
	// PCI are the PCI ids of the devices it is for, four hexadecimal digits in lower case each; the models of such devices.
	PCI []PCIDevice `json:"pci,omitempty"`
}

// PCIDevice are the PCI ids of a device; the subsystem's are empty where the image does not name them.
type PCIDevice struct {
	Vendor          string `json:"vendor"`
	Device          string `json:"device"`
	SubsystemVendor string `json:"subsystemVendor,omitempty"`
	Subsystem       string `json:"subsystem,omitempty"`
}

// ErrInvalid is what an error matches when the image contradicts its own format.
var ErrInvalid = errors.New("invalid image")

// Read returns the metadata embedded in the image; nil if its format has none or is unknown.
func Read(ctx context.Context, image *os.File) ([]Firmware, error) {
	info, err := image.Stat()
	if err != nil {
		return nil, fmt.Errorf("read image: %w", err)
	}
	content := sized{ReaderAt: image, size: info.Size()}
	head, err := content.read(0, min(content.size, capsuleHeader))
	if err != nil {
		return nil, err
	}
	switch begin := string(head); {
	case strings.HasPrefix(begin, "MSCF"):
		return cabinet(ctx, image)
	case strings.HasPrefix(begin, "MTFW"):
		return mellanox(content)
	case pldmRevision(head) > 0:
		return content.pldm()
	case content.isCapsule(head):
		return content.capsule(head)
	}
	return nil, nil
}

// sized is an image of size bytes.
type sized struct {
	io.ReaderAt
	size int64
}

// read returns n bytes at a place of the image.
func (s sized) read(at, n int64) ([]byte, error) {
	if at < 0 || n < 0 || at > s.size-n {
		return nil, fmt.Errorf("%w: it refers to %d bytes at %#x, but has only %d bytes", ErrInvalid, n, at, s.size)
	}
	out := make([]byte, n)
	if _, err := s.ReadAt(out, at); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read image: %w", err)
	}
	return out, nil
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
	Custom struct {
		Value []struct {
			Key  string `xml:"key,attr"`
			Text string `xml:",chardata"`
		} `xml:"value"`
	} `xml:"custom"`
}

var (
	guid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	// number is a version that fwupd may spell in another way than the metainfo does.
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
	// fwupd installs what is listed first, whatever its version. Releases below it are the history of the cabinet.
	if v := c.Releases.Release[0].Version; number.MatchString(v) {
		format := ""
		for _, custom := range c.Custom.Value {
			if custom.Key == "LVFS::VersionFormat" {
				format = strings.TrimSpace(custom.Text)
			}
		}
		out.Versions = spellings(v, format)
	} else if v != "" {
		out.Versions = []string{v}
	}
	return out, nil
}

// spellings are the ways in which a device may report a version that an image has as a number: as it stands there, and in the format that is
// declared, or in all of them where none is.
func spellings(number, format string) []string {
	out := []string{number}
	n, err := strconv.ParseUint(number, 0, 32)
	if err != nil {
		return out
	}
	for _, f := range inventory.NumberFormats {
		known := slices.Contains(inventory.NumberFormats[:], format)
		if v := inventory.SpellNumber(f, uint32(n)); (!known || f == format || f == "number" || f == "hex") && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
