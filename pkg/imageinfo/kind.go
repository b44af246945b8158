package imageinfo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Kind is what an image is by its beginning; empty where that says nothing. Most images of drives, controllers and machines have no
// beginning of their own.
type Kind string

// forms are the beginnings that are known, each with the class of the devices that it can be for; none where it is no image. A program is left
// out: it may be what a profile runs. So is a PLDM package, which may be for a device of any class and says for which.
var forms = [...]struct {
	kind  Kind
	at    int
	magic string
	class inventory.Class
}{
	{"an image of a Mellanox adapter", 0, fs3Magic, inventory.NIC},
	{"an image of a Mellanox adapter", 0, fs4Magic, inventory.NIC},
	{"an archive of images of Mellanox adapters", 0, "MLNX.MFA2.XZ.00!", inventory.NIC}, // mstflint, mlxfwops/lib/mfa2
	{"a BlueField bundle (BFB)", 0, "Bf\x02\x13", inventory.NIC},                        // github.com/Mellanox/bfscripts, mlx-mkbfb
	// UEFI 2.10: the GUID of a capsule of firmware (23.3.1), and the mark of a firmware volume (PI 1.8, III 3.2.1).
	{"a UEFI capsule", 0, fmpCapsule, inventory.BIOS},
	{"a UEFI firmware volume", 40, "_FVH", inventory.BIOS},
	{"a file of bzip2", 4, "1AY&SY", ""}, {"a 7z archive", 0, "7z\xbc\xaf\x27\x1c", ""}, {"a rar archive", 0, "Rar!\x1a\x07", ""},
	{"a Debian package", 0, "!<arch>\ndebian", ""}, {"a PDF document", 0, "%PDF-", ""},
}

// texts are the beginnings of texts, which are no images, whatever their blanks and their case.
var texts = [...]struct {
	kind  Kind
	magic string
}{
	{"an HTML page", "<!doctypehtml"}, {"an HTML page", "<html"}, {"an XML document", "<?xml"}, {"a key, certificate or signature in PEM", "-----begin"},
	{"a JSON document", `{"`}, {"a JSON document", `[{"`},
}

// Recognize looks at the beginning of an image.
func Recognize(image io.ReaderAt) (Kind, error) {
	var buffer [512]byte
	n, err := image.ReadAt(buffer[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read image: %w", err)
	}
	head := buffer[:n]
	for _, f := range forms {
		if n > f.at && bytes.HasPrefix(head[f.at:], []byte(f.magic)) {
			return f.kind, nil
		}
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return "", nil
	}
	text := strings.ToLower(strings.Join(strings.Fields(strings.TrimPrefix(string(head), "\ufeff")), ""))
	for _, f := range texts {
		if strings.HasPrefix(text, f.magic) {
			return f.kind, nil
		}
	}
	return "", nil
}

// IsFor reports whether such an image can be for a device of the class.
func (k Kind) IsFor(class inventory.Class) bool {
	for _, f := range forms {
		if f.kind == k {
			return f.class == class
		}
	}
	return k == ""
}

// IsImage reports whether it can be an image at all.
func (k Kind) IsImage() bool {
	return k.IsFor(inventory.NIC) || k.IsFor(inventory.BIOS)
}
