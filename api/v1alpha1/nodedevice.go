package v1alpha1

import "strings"

// PCIIDs are the two parts of pciID; both are empty where the device is not on the PCI bus.
func (s *NodeDeviceStatus) PCIIDs() (vendor, device string) {
	vendor, device, _ = strings.Cut(s.PCIID, ":")
	return vendor, device
}

// ModelKey is the model of the device; see the function of that name.
func (s *NodeDeviceStatus) ModelKey() string {
	vendor, device := s.PCIIDs()
	return ModelKey(vendor, device, s.Vendor, s.Model)
}

// IsUnhealthy reports whether a job left the device unhealthy, so that every image waits for a retry.
func (s *NodeDeviceStatus) IsUnhealthy() bool { return s.Failure != nil && s.Failure.Digest == "" }
