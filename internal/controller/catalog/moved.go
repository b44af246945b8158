package catalog

import (
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// noteMoves says of each version that a registry offers whether its tag pointed to another artifact before, by what the status said, and
// reports whether there is a move that the status did not tell. One that it told stays until a requested discovery has ended.
func noteMoves(was, is *v1alpha1.FirmwareCatalogStatus, now time.Time) (found bool) {
	seen := was.Discover != is.Discover
	for i := range is.Components {
		c := &is.Components[i]
		at := slices.IndexFunc(was.Components, func(o v1alpha1.CatalogComponent) bool { return of(&o) == of(c) })
		if at < 0 {
			continue
		}
		for j := range c.Versions {
			v := &c.Versions[j]
			if v.Moved = moved(was.Components[at].Versions, v, now); v.Moved != nil {
				found = true
			} else if !seen {
				v.Moved = told(was.Components[at].Versions, v)
			}
		}
	}
	return found
}

// moved is what a version or, where that was not listed, its tag pointed to before; nil where that is the same.
func moved(was []v1alpha1.CatalogVersion, v *v1alpha1.CatalogVersion, now time.Time) *v1alpha1.CatalogMove {
	repository, _, ok := strings.Cut(v.URL, "@")
	if v.Tag == "" || !ok {
		return nil
	}
	ofRepository := func(o v1alpha1.CatalogVersion) bool { return o.Tag != "" && strings.HasPrefix(o.URL, repository+"@") }
	before := slices.IndexFunc(was, func(o v1alpha1.CatalogVersion) bool { return ofRepository(o) && o.Version == v.Version })
	if before < 0 {
		before = slices.IndexFunc(was, func(o v1alpha1.CatalogVersion) bool { return ofRepository(o) && o.Tag == v.Tag })
	}
	if before < 0 || was[before].URL == v.URL {
		return nil
	}
	return &v1alpha1.CatalogMove{From: strings.TrimPrefix(was[before].URL, repository+"@"), Time: *second(now)}
}

// told is the move that the status told of for the same artifact; nil for none.
func told(was []v1alpha1.CatalogVersion, v *v1alpha1.CatalogVersion) *v1alpha1.CatalogMove {
	for i := range was {
		if o := &was[i]; o.Moved != nil && o.Version == v.Version && o.URL == v.URL {
			return o.Moved.DeepCopy()
		}
	}
	return nil
}
