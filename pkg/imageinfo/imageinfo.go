package imageinfo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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

// maxMetainfo bounds one description in a cabinet.
const maxMetainfo = 1 << 20

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
	err = unpack.Walk(ctx, image, unpack.Cabinet, unpack.Limits{}, func(name string, open func() (io.Reader, error)) error {
		if !strings.HasSuffix(name, described) {
			return nil
		}
		r, err := open()
		if err != nil {
			return err
		}
		f, err := metainfo(io.LimitReader(r, maxMetainfo))
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
