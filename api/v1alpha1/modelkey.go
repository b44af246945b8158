package v1alpha1

import "strings"

// ModelKey returns the model of a device in the form that quarantines use: vendor and model, by PCI ids if there are
// any ("15b3:101d"), otherwise by the names the device reports ("Dell Inc.:PowerEdge R650"). It returns AnyModel when
// the device reports neither.
func ModelKey(vendorID, deviceID, vendor, model string) string {
	if vendorID != "" && deviceID != "" {
		return strings.ToLower(vendorID + ":" + deviceID)
	}
	if vendor = strings.TrimSpace(vendor); vendor == "" && strings.TrimSpace(model) == "" {
		return AnyModel
	}
	return vendor + ":" + strings.TrimSpace(model)
}

// AnyModel is the ModelKey that stands for every model.
const AnyModel = "*"
