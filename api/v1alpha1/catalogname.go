package v1alpha1

import (
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// DefaultCatalog is the name of the FirmwareCatalog that gives the others what they leave out.
const DefaultCatalog = "default"

// maxCatalogText bounds vendor and model of a FirmwareCatalog, in characters.
const maxCatalogText = 120

// CatalogOf spells vendor and model of a machine as its FirmwareCatalog does. Machines that are spelled the same are of one model. It
// fails when one of the texts is too long or has neither letter nor digit; there is no catalog for such machines.
func CatalogOf(vendor, model string) (CatalogMachine, error) {
	out := CatalogMachine{Vendor: text.Slug(vendor), Model: text.Slug(model)}
	switch {
	case out.Vendor == "" || out.Model == "":
		return CatalogMachine{}, fmt.Errorf("name model of vendor %q and model %q: one has neither an ASCII letter nor a digit", vendor, model)
	case len(out.Vendor) > maxCatalogText || len(out.Model) > maxCatalogText:
		return CatalogMachine{}, fmt.Errorf("name model of vendor %.20q… and model %.20q…: one is longer than %d characters", vendor, model, maxCatalogText)
	}
	return out, nil
}

// CatalogName is the name of the catalog of the machine, the only one that the API server accepts for its model.
func (m CatalogMachine) CatalogName() string { return m.Vendor + "." + m.Model }
