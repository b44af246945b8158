package inventory

import "github.com/nodefirmware/node-firmware-operator/pkg/text"

// AnyVendor as a vendor that a person names says that every vendor is meant, and that it was not forgotten.
const AnyVendor = "any"

// Vendor spells the vendor that a rule, an image or an index names, a PCI id or a name, in the form in which it is compared with the
// text.Slug of what a device reports. It is empty where it is no device's; every says that it is not restricted.
func Vendor(named string) (slug string, every bool) {
	slug = text.Slug(named)
	return slug, named == "" || slug == AnyVendor
}
