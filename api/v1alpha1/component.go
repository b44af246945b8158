package v1alpha1

// ComponentKey is what makes devices of one component: which images they take, as far as the devices say it. A subsystemID tells boards with
// one chip apart where the vendor has no board id.
// +kubebuilder:object:generate=false
type ComponentKey struct {
	Class                                      DeviceClass
	Vendor, Model, PCIID, SubsystemID, BoardID string
}

// Key is what makes the devices of the component.
func (c *CatalogComponent) Key() ComponentKey {
	return ComponentKey{Class: c.Class, Vendor: c.Vendor, Model: c.Model, PCIID: c.PCIID, SubsystemID: c.SubsystemID, BoardID: c.BoardID}
}

// Component is the component of a catalog that the device is one of.
func (s *NodeDeviceStatus) Component() ComponentKey {
	return ComponentKey{Class: s.Class, Vendor: s.Vendor, Model: s.Model, PCIID: s.PCIID, SubsystemID: s.SubsystemID, BoardID: s.BoardID}
}
