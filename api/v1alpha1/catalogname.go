package v1alpha1

import (
	"fmt"
	"strings"
)

// maxCatalogText bounds manufacturer and model of a FirmwareCatalog, in characters.
const maxCatalogText = 120

// CatalogModel spells manufacturer and model of a machine as the spec of its FirmwareCatalog does: in lower case, with a dash for what
// is neither an ASCII letter nor a digit. Machines that are spelled the same are of one model. It fails when one of the texts is too
// long or has neither letter nor digit; there is no catalog for such machines.
func CatalogModel(manufacturer, model string) (FirmwareCatalogSpec, error) {
	var out FirmwareCatalogSpec
	for _, s := range []struct {
		reported string
		into     *string
	}{{manufacturer, &out.Manufacturer}, {model, &out.Model}} {
		words := strings.FieldsFunc(strings.Map(lowerASCII, s.reported), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
		*s.into = strings.Join(words, "-")
		switch {
		case len(words) == 0:
			return FirmwareCatalogSpec{}, fmt.Errorf("name model of manufacturer %q and model %q: one has neither an ASCII letter nor a digit", manufacturer, model)
		case len(*s.into) > maxCatalogText:
			return FirmwareCatalogSpec{}, fmt.Errorf("name model of %.20q…: longer than %d characters", s.reported, maxCatalogText)
		}
	}
	return out, nil
}

// CatalogName is the name of the catalog with the spec, the only one that the API server accepts for its model.
func (s FirmwareCatalogSpec) CatalogName() string { return s.Manufacturer + "." + s.Model }

// lowerASCII leaves letters of other alphabets alone, of which some have an ASCII letter as their lower case.
func lowerASCII(r rune) rune {
	if r >= 'A' && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}
