package v1alpha1

import "fmt"

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
		*s.into = Slug(s.reported)
		switch {
		case *s.into == "":
			return FirmwareCatalogSpec{}, fmt.Errorf("name model of manufacturer %q and model %q: one has neither an ASCII letter nor a digit", manufacturer, model)
		case len(*s.into) > maxCatalogText:
			return FirmwareCatalogSpec{}, fmt.Errorf("name model of %.20q…: longer than %d characters", s.reported, maxCatalogText)
		}
	}
	return out, nil
}

// CatalogName is the name of the catalog with the spec, the only one that the API server accepts for its model.
func (s FirmwareCatalogSpec) CatalogName() string { return s.Manufacturer + "." + s.Model }
