package artifact

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/imageinfo"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// describes compares what an image says of itself with each of its descriptions. An image that says nothing passes: its driver
// compares it with the device before it writes.
func describes(ctx context.Context, image *os.File, f File, path string) error {
	said, err := imageinfo.Read(ctx, image)
	switch {
	case ctx.Err() != nil:
		return transient(StorageFailed, "read image: %w", ctx.Err())
	case errors.Is(err, imageinfo.ErrInvalid):
		return permanent(ImageMismatch, "%s: %w; nothing of the file was stored", nameOf(f, path), err)
	case err != nil:
		return transient(StorageFailed, "read image: %w", err)
	case len(said) == 0:
		return nil
	}
	for _, d := range f.Images {
		if d.Path == path {
			if err := agree(said, d, nameOf(f, path)); err != nil {
				return err
			}
		}
	}
	return nil
}

// agree finds for each board of the description, or for the image as a whole where it names none, a firmware of the image.
func agree(said []imageinfo.Firmware, d Description, name string) error {
	ofVersion := slices.DeleteFunc(slices.Clone(said), func(f imageinfo.Firmware) bool {
		return len(f.Versions) > 0 && !slices.ContainsFunc(f.Versions, func(v string) bool {
			return inventory.NormalizeVersion(v) == inventory.NormalizeVersion(string(d.Version))
		})
	})
	if len(ofVersion) == 0 {
		return permanent(ImageMismatch, "%s says that it is version %s, and the source says %s; nothing of the file was stored", name, list(said,
			func(f imageinfo.Firmware) []string { return f.Versions }), d.Version)
	}
	boards := func(f imageinfo.Firmware) []string { return f.Boards }
	for _, board := range d.BoardIDs {
		if d.Class != inventory.BIOS && len(board) != len("00000000-0000-0000-0000-000000000000") { // of a drive, which has GUIDs besides
			continue
		}
		if !slices.ContainsFunc(ofVersion, func(f imageinfo.Firmware) bool {
			return slices.ContainsFunc(f.Boards, func(b string) bool { return inventory.NormalizeID(b) == inventory.NormalizeID(board) })
		}) {
			return permanent(ImageMismatch, "%s says that it is for %s, and the source says for %s; nothing of the file was stored", name, list(ofVersion, boards), board)
		}
	}
	return nil
}

// list joins what an image says, as far as a message has room.
func list(said []imageinfo.Firmware, of func(imageinfo.Firmware) []string) string {
	var all []string
	for _, f := range said {
		all = append(all, of(f)...)
	}
	const most = 5
	if len(all) > most {
		all = append(all[:most], "...")
	}
	return strings.Join(all, ", ")
}

func nameOf(f File, path string) string {
	if path == "" {
		return redacted(f.URL)
	}
	return path
}
