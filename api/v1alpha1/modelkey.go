package v1alpha1

import "strings"

// ModelKey names the model of a device as quarantines do: vendor and model, by the PCI ids where there are some
// ("15b3:101d"), or else by the names the device reports ("Dell Inc.:PowerEdge R650"). It is "*", every model, when the
// device tells neither.
func ModelKey(vendorID, deviceID, vendor, model string) string {
	if vendorID != "" && deviceID != "" {
		return strings.ToLower(vendorID + ":" + deviceID)
	}
	if vendor = strings.TrimSpace(vendor); vendor == "" && strings.TrimSpace(model) == "" {
		return AnyModel
	}
	return vendor + ":" + strings.TrimSpace(model)
}

// AnyModel is the ModelKey of every model.
const AnyModel = "*"
