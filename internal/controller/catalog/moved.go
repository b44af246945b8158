package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
)

// moved says which versions of a registry were another artifact before, by what the status said; empty where there is none. Nothing but an
// event comes of it, because what is in store is known by its digest.
func moved(was, is []v1alpha1.CatalogComponent) string {
	message, n := "", 0
	for i := range is {
		at := slices.IndexFunc(was, func(o v1alpha1.CatalogComponent) bool { return of(&o) == of(&is[i]) })
		if at < 0 {
			continue
		}
		for _, v := range is[i].Versions {
			before := slices.IndexFunc(was[at].Versions, func(o v1alpha1.CatalogVersion) bool { return o.Version == v.Version })
			if before < 0 || !artifact.OCI(v.URL) {
				continue
			}
			repository, now, _ := strings.Cut(v.URL, "@")
			then, ok := strings.CutPrefix(was[at].Versions[before].URL, repository+"@")
			if !ok || then == now {
				continue
			}
			if n++; n == 1 {
				message = fmt.Sprintf("A tag moved: version %s in %s was %s and is now %s", v.Version, repository, then, now)
			}
		}
	}
	switch {
	case n == 0:
		return ""
	case n > 1:
		message += fmt.Sprintf(", and so are %d other versions", n-1)
	}
	return message + ". Nothing in store has changed. Find out who moved it before you use it."
}
