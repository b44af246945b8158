package v1alpha1

// MachineSelector names a machine model as DMI reports it. Both are compared as slugs: in lower case, with a dash for all but
// letters and digits, so that "dell-inc" is "Dell Inc.".
// +kubebuilder:validation:XValidation:rule="has(self.vendor) || has(self.model)",message="name a vendor, a model, or both"
type MachineSelector struct {
	// vendor is the DMI system vendor, such as Lenovo. Absent: any.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`[A-Za-z0-9]`
	Vendor string `json:"vendor,omitempty"`
	// model is the DMI product name, such as 7X21. Absent: any.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`[A-Za-z0-9]`
	Model string `json:"model,omitempty"`
}

// AnyVendor as the vendor of a selector says that the devices of every vendor are meant.
const AnyVendor = "any"

// DeviceSelector selects devices by their identity. Every list that is given must match; a list matches if one of its
// entries does. An absent list matches everything, but a class alone selects the devices of every vendor only where vendor
// says so.
// +kubebuilder:validation:XValidation:rule="self.class == 'BIOS' || has(self.vendor) || has(self.models) || has(self.boardIDs) || has(self.serialNumbers) || has(self.pciAddresses)",message="name a vendor, models, boardIDs, serialNumbers or pciAddresses; for the devices of every vendor, set vendor to any"
// +kubebuilder:validation:XValidation:rule="!has(self.pciAddresses) || self.class != 'BIOS'",message="a BIOS has no PCI address; remove pciAddresses"
type DeviceSelector struct {
	// class of the devices: NIC, StorageController, Disk or BIOS.
	// +required
	Class DeviceClass `json:"class,omitempty"`
	// vendor is the four-digit hexadecimal PCI vendor id (15b3) or the vendor's name, compared as a slug: in lower case, with a
	// dash for all but letters and digits, so that "dell-inc" is "Dell Inc.". "any" says that every vendor is meant. Absent: any
	// vendor, where another field restricts the devices.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`[A-Za-z0-9]`
	Vendor string `json:"vendor,omitempty"`
	// models are PCI device ids (101d) or model names as the device reports them; case is ignored. At most 64.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Models []string `json:"models,omitempty"`
	// boardIDs are the ids a board checks an image against: PSID, board.id and their like; compared after
	// normalisation (case and surrounding blanks are ignored). At most 64.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	BoardIDs []string `json:"boardIDs,omitempty"`
	// serialNumbers of single devices. At most 256.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	SerialNumbers []string `json:"serialNumbers,omitempty"`
	// pciAddresses of single devices as domain:bus:device.function ("0000:3b:00.0"); a card matches when any of its
	// functions does. At most 64.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=12
	// +kubebuilder:validation:items:Pattern=`^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`
	PCIAddresses []string `json:"pciAddresses,omitempty"`
}
