package sourcefile

import (
	"cmp"
	"crypto/sha256"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Expected is the image that a file of a source is said to hold, before it was fetched. The true digest of an image in an archive is not known
// then unless the source names it; a placeholder is in its place, the same for the same archive and path.
func Expected(f v1alpha1.FirmwareFile, i v1alpha1.ImageDescription) v1alpha1.StoredImage {
	digest := string(i.Digest)
	switch {
	case digest != "":
	case i.Path != "" || f.Digest == "":
		digest = inventory.Digest(sha256.Sum256([]byte(cmp.Or(string(f.Digest), f.URL) + "\x00" + i.Path))).String()
	default:
		digest = string(f.Digest)
	}
	return v1alpha1.StoredImage{
		Version: i.Version, Class: i.Class, Vendor: i.Vendor, Models: i.Models, BoardIDs: i.BoardIDs, Digest: v1alpha1.Digest(digest),
	}
}
