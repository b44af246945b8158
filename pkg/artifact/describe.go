package artifact

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/nodefirmware/node-firmware-operator/pkg/imageinfo"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// maxBoards is the most boards of an image, as in the API, and maxSaid the most boards and versions that an image may name.
const maxBoards, maxSaid = 64, 1024

// describes compares what an image is and says of itself with each of its descriptions, and returns both. An image that says nothing
// passes if its descriptions say for what it is: its driver compares it with the device before it writes.
func describes(ctx context.Context, image *os.File, f File, path string) (kind imageinfo.Kind, said []imageinfo.Firmware, err error) {
	if kind, err = imageinfo.Recognize(image); err == nil && kind.IsImage() {
		said, err = imageinfo.Read(ctx, image)
	}
	switch {
	case ctx.Err() != nil:
		return "", nil, transient(StorageFailed, "read image: %w", ctx.Err())
	case errors.Is(err, imageinfo.ErrInvalid):
		return "", nil, permanent(ImageMismatch, "%s: %w; nothing of the file was stored", nameOf(f, path), err)
	case err != nil:
		return "", nil, transient(StorageFailed, "read image: %w", err)
	case !kind.IsImage():
		return "", nil, permanent(ImageMismatch, "%s begins like %s, and no image does; nothing of the file was stored: correct the URL or the path", nameOf(f, path), kind)
	}
	all := 0
	for _, s := range said {
		all += len(s.Boards) + len(s.Versions) + len(s.PCI)
	}
	if all > maxSaid {
		return "", nil, permanent(ImageMismatch, "%s names %d boards and versions, the limit is %d; nothing of the file was stored", nameOf(f, path), all, maxSaid)
	}
	for _, d := range f.Images {
		if d.Path != path {
			continue
		}
		if err := fits(kind, said, d, nameOf(f, path)); err != nil {
			return "", nil, err
		}
	}
	return kind, said, nil
}

// fits compares what an image is and says of itself with one description.
func fits(kind imageinfo.Kind, said []imageinfo.Firmware, d Description, name string) error {
	if !kind.IsFor(d.Class) {
		return permanent(ImageMismatch, "%s is %s, and the source says %s; nothing of the file was stored: correct the class, the URL or the path", name, kind, d.Class)
	}
	if err := agree(said, d, name); err != nil {
		return err
	}
	if n := len(boardsOf(d, said)); len(d.BoardIDs) == 0 && n > maxBoards {
		return permanent(ImageMismatch, "%s says that version %s is for %d boards, the limit is %d; nothing of the file was stored: name in boardIDs those that you have",
			name, d.Version, n, maxBoards)
	}
	if isUndeclared(d, said) {
		return permanent(BoardsUnknown, "%s does not say for which boards it is, and neither does the source; nothing of the file was stored: name boardIDs or models in the source, or write vendor: any if every device of the class may get it",
			name)
	}
	return nil
}

// isUndeclared reports whether neither the description nor the image says for which boards or models it is.
func isUndeclared(d Description, said []imageinfo.Firmware) bool {
	return text.Slug(d.Vendor) != inventory.AnyVendor && len(d.Models) == 0 && len(boardsOf(d, said)) == 0
}

// boardsOf returns the boards of an image: those of its description, or else those that it names itself for that version.
func boardsOf(d Description, said []imageinfo.Firmware) []string {
	if len(d.BoardIDs) > 0 {
		return d.BoardIDs
	}
	var out []string
	for _, s := range said {
		if isBoard(s, d) && isVersion(s, d) {
			out = append(out, s.Boards...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isBoard reports whether the ids that the image names are board ids of the devices that the description means. A GUID is the board
// id of a BIOS that fwupd lists, and of no other device; a source that names models may mean machines that fwupd does not list.
func isBoard(said imageinfo.Firmware, d Description) bool {
	return !said.GUIDs || d.Class == inventory.BIOS && len(d.Models) == 0
}

// capsuleNumber matches the spellings that the version of a capsule may have.
var capsuleNumber = regexp.MustCompile(`^(0x[0-9a-fA-F]+|[0-9]+(\.[0-9a-fA-F]+)*)$`)

// isVersion reports whether the image, or a part of it, may be of the version. An image may not say its version as a device does.
func isVersion(said imageinfo.Firmware, d Description) bool {
	isText := func(v string) bool { return !capsuleNumber.MatchString(v) }
	if said.GUIDs && isText(string(d.Version)) && !slices.ContainsFunc(said.Versions, isText) {
		return true // a capsule has a number, and a BIOS may report its version as a text
	}
	return len(said.Versions) == 0 || slices.ContainsFunc(said.Versions, func(v string) bool {
		return inventory.NormalizeVersion(v) == inventory.NormalizeVersion(string(d.Version))
	})
}

// agree finds for each board of the description, or for the image as a whole where it names none, a firmware of the image.
func agree(said []imageinfo.Firmware, d Description, name string) error {
	if len(said) == 0 {
		return nil
	}
	ofVersion := slices.DeleteFunc(slices.Clone(said), func(f imageinfo.Firmware) bool { return !isVersion(f, d) })
	if len(ofVersion) == 0 {
		return permanent(ImageMismatch, "%s says that it is version %s, and the source says %s; nothing of the file was stored", name, list(said,
			func(f imageinfo.Firmware) []string { return f.Versions }), d.Version)
	}
	boards := func(f imageinfo.Firmware) []string { return f.Boards }
	if wrong := foreign(ofVersion, d); wrong != "" {
		return permanent(ImageMismatch, "%s says that it is for PCI devices %s, and the source says for %s; nothing of the file was stored", name, list(ofVersion, devices), wrong)
	}
	for _, board := range d.BoardIDs {
		if len(ofVersion[0].Boards) == 0 {
			break // it names its devices in another way
		}
		if ofVersion[0].GUIDs && uuid.Validate(board) != nil {
			continue // a name, with which no GUID can be compared
		}
		if !slices.ContainsFunc(ofVersion, func(f imageinfo.Firmware) bool {
			return slices.ContainsFunc(f.Boards, func(b string) bool { return inventory.NormalizeID(b) == inventory.NormalizeID(board) })
		}) {
			return permanent(ImageMismatch, "%s says that it is for %s, and the source says for %s; nothing of the file was stored", name, list(ofVersion, boards), board)
		}
	}
	return nil
}

// foreign is the vendor or the model that the description names by a PCI id and the image does not; empty for none. One that has a name is not
// compared.
func foreign(said []imageinfo.Firmware, d Description) string {
	named := func(id string, of func(imageinfo.PCIDevice) string) bool {
		return !pciID.MatchString(id) || slices.ContainsFunc(said, func(f imageinfo.Firmware) bool {
			return len(f.PCI) == 0 || slices.ContainsFunc(f.PCI, func(p imageinfo.PCIDevice) bool { return of(p) == strings.ToLower(id) })
		})
	}
	if !named(d.Vendor, func(p imageinfo.PCIDevice) string { return p.Vendor }) {
		return d.Vendor
	}
	for _, model := range d.Models {
		if !named(model, func(p imageinfo.PCIDevice) string { return p.Device }) {
			return model
		}
	}
	return ""
}

var pciID = regexp.MustCompile(`^[0-9a-fA-F]{4}$`)

// devices are the PCI ids that an image names, as lspci -nn shows them.
func devices(f imageinfo.Firmware) []string {
	var out []string
	for _, p := range f.PCI {
		if id := p.Vendor + ":" + p.Device; !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
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
