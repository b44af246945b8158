package v1alpha1

import (
	"cmp"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// AnyModel is the ModelKey that stands for every model.
const AnyModel = anyPart + ":" + anyPart

// anyPart stands for a vendor or a model that is not known.
const anyPart = "any"

// maxModelPart bounds each part of a ModelKey, so that the name of an object holds both. Longer names that begin alike are of one model.
const maxModelPart = 112

// ModelKey returns the model of a device in the form that jobs, rollouts and quarantines use, vendor:model: by PCI ids if there
// are any ("15b3:101d"), otherwise the slugs of the names that the device reports ("dell-inc:bios"). A part that is not known is
// "any"; AnyModel where the device reports neither.
func ModelKey(vendorID, deviceID, vendor, model string) string {
	if vendorID != "" && deviceID != "" {
		vendor, model = vendorID, deviceID
	}
	return modelPart(vendor) + ":" + modelPart(model)
}

func modelPart(name string) string {
	s := text.Slug(name)
	return cmp.Or(strings.TrimRight(s[:min(len(s), maxModelPart)], "-"), anyPart)
}
