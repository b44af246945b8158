package artifact

import (
	"fmt"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// CheckUnique finds different images declared for the same board and version, as far as this is known before the files are fetched: for
// plain images, from their declared digests and boards.
func CheckUnique(files []File) error {
	var images []Image
	for _, f := range files {
		if f.isImage() && f.Digest != (inventory.Digest{}) {
			for _, d := range f.Images {
				if len(d.BoardIDs) > 0 {
					images = append(images, Image{Description: d, Digest: f.Digest})
				}
			}
		}
	}
	return checkUnique(images)
}

// checkBeside finds the same in the images of a file that was fetched, and of those files beside it that are in store.
func (s *Store) checkBeside(known metadata, record fileRecord, f File, beside []File) error {
	images := imagesOf(record, f)
	for _, other := range beside {
		if other.URL == f.URL {
			continue
		}
		if r, ok := s.recorded(known, other); ok {
			images = append(images, imagesOf(r, other)...)
		}
	}
	return checkUnique(images)
}

// namedViolations bounds what a message says of images that contradict each other.
const namedViolations = 10

// checkUnique finds different images that claim the same board in the same version, and names each such board. Two images for the same
// board that are restricted to different vendors or models fit no device both.
func checkUnique(images []Image) error {
	type key struct {
		class   inventory.Class
		version inventory.Version
		board   string
	}
	type claim struct {
		digest      inventory.Digest
		vendor      string
		everyVendor bool
		models      map[string]bool
	}
	seen := map[key][]claim{}
	var violations []string
	for _, i := range images {
		c := claim{digest: i.Digest, models: map[string]bool{}}
		c.vendor, c.everyVendor = inventory.Vendor(i.Vendor)
		for _, m := range i.Models {
			c.models[inventory.NormalizeID(m)] = true
		}
		for _, board := range orAny(i.BoardIDs) {
			k := key{i.Class, inventory.NormalizeVersion(string(i.Version)), inventory.NormalizeID(board)}
			for _, other := range seen[k] {
				vendors := other.everyVendor || c.everyVendor || other.vendor == c.vendor
				if other.digest != c.digest && vendors && meet(other.models, c.models) {
					violations = append(violations, fmt.Sprintf("version %s for class %s, board id %q: %s and %s", i.Version, i.Class, k.board, other.digest, c.digest))
					break
				}
			}
			seen[k] = append(seen[k], c)
		}
	}
	if len(violations) == 0 {
		return nil
	}
	more := ""
	if n := len(violations) - namedViolations; n > 0 {
		violations, more = violations[:namedViolations], fmt.Sprintf("; and %d more", n)
	}
	return &Error{Reason: InvalidSpec, Err: fmt.Errorf("two images of %s%s; keep one of each", strings.Join(violations, "; of "), more)}
}

// meet reports whether a device may be of a model of both; none is no restriction.
func meet(a, b map[string]bool) bool {
	if len(a) == 0 || len(b) == 0 {
		return true
	}
	for m := range a {
		if b[m] {
			return true
		}
	}
	return false
}
