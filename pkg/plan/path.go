package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Path restricts how versions are reached.
type Path []Edge

// Edge restricts how a version is flashed over the versions in From, or over all that are older than Below: after Via, or not at
// all where there is none.
type Edge struct {
	To    inventory.Version
	From  []inventory.Version
	Below inventory.Version
	Via   inventory.Version
	// Digest of the image of Via.
	Digest inventory.Digest
}

// ErrCircle says that the upgrade paths go round in a circle and never reach an image to flash.
var ErrCircle = errors.New("the upgrade paths lead in a circle; correct them")

// Image is a version to be flashed. Without a digest there is no image of it.
type Image struct {
	Version inventory.Version
	Digest  inventory.Digest
}

// Next returns what to flash over the running version now: the target itself, or a hop on the way to it. The error says why nothing may be
// flashed; it is ErrCircle if the edges go round in a circle. An edge that names the running version takes precedence over edges with a
// bound; of these the one with the oldest bound wins. A hop takes precedence over a prohibition, which forbids only the direct update.
func (p Path) Next(to Image, running inventory.Version, format inventory.VersionFormat) (next Image, err error) {
	for range len(p) + 1 {
		var via, forbidden *Edge
		unordered := false
		for i := range p {
			e := &p[i]
			if e.To != to.Version {
				continue
			}
			exact := slices.Contains(e.From, running)
			if e.Below != "" {
				switch running.Compare(e.Below, format) {
				case inventory.Incomparable:
					unordered, forbidden = true, e
					continue
				case inventory.Older:
				default:
					continue
				}
			} else if !exact {
				continue
			}
			switch {
			case e.Via == "":
				if !unordered {
					forbidden = e
				}
			case via == nil, exact && via.Below != "",
				!exact && via.Below != "" && e.Below.Compare(via.Below, format) == inventory.Older:
				via = e
			}
		}
		switch {
		case via != nil && (via.Below == "" || !unordered):
			if via.Via == running {
				return to, fmt.Errorf("the upgrade paths lead to %s via %s, which already runs; correct them", to.Version, running)
			}
			to = Image{via.Via, via.Digest}
		case unordered:
			return to, fmt.Errorf("how %s is flashed depends on whether what runs is below %s, and the running %s cannot be ordered against it",
				to.Version, forbidden.Below, running)
		case forbidden != nil && forbidden.Below != "":
			return to, fmt.Errorf("%s needs at least %s to run, and %s runs; declare a version in between", to.Version, forbidden.Below, running)
		case forbidden != nil:
			return to, fmt.Errorf("%s must not be flashed over the running %s; declare a version in between, or select another version", to.Version, running)
		default:
			return to, nil
		}
	}
	return to, ErrCircle
}
