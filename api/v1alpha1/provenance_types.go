package v1alpha1

// ReferenceKind is the kind of an object that firmware came from.
// +kubebuilder:validation:Enum=FirmwareTemplate;NodeFirmware;FirmwareSource
type ReferenceKind string

// The kinds of objects that firmware comes from.
const (
	// ReferenceTemplate is a FirmwareTemplate.
	ReferenceTemplate ReferenceKind = "FirmwareTemplate"
	// ReferencePins is the NodeFirmware of the node, with its pins.
	ReferencePins ReferenceKind = "NodeFirmware"
	// ReferenceSource is a FirmwareSource.
	ReferenceSource ReferenceKind = "FirmwareSource"
)

// ObjectReference names one object in one generation.
type ObjectReference struct {
	// kind of the object.
	// +required
	Kind ReferenceKind `json:"kind,omitempty"`
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// uid of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
	// generation of the object.
	// +required
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation"`
}

// ObsoleteReason says what happened to an object that firmware came from.
// +kubebuilder:validation:Enum=Updated;Recreated;Deleted;Superseded
type ObsoleteReason string

// The reasons.
const (
	// ObsoleteUpdated: the object has another generation.
	ObsoleteUpdated ObsoleteReason = "Updated"
	// ObsoleteRecreated: another object has its name.
	ObsoleteRecreated ObsoleteReason = "Recreated"
	// ObsoleteDeleted: the object, or the pin in it, is gone.
	ObsoleteDeleted ObsoleteReason = "Deleted"
	// ObsoleteSuperseded: the object is as it was, and another one assigns other firmware to the device now.
	ObsoleteSuperseded ObsoleteReason = "Superseded"
)

// ObsoleteReference is an object that running firmware came from, as it was then.
type ObsoleteReference struct {
	ObjectReference `json:",inline"`
	// pin is the name of the pin; present for a NodeFirmware only.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Pin string `json:"pin,omitempty"`
	// reason is Updated (another generation), Recreated (another uid), Deleted (the object or the pin in it is gone) or Superseded
	// (it is as it was, and another object assigns other firmware now).
	// +required
	Reason ObsoleteReason `json:"reason,omitempty"`
	// devices is the number of devices of the node whose firmware came from it.
	// +required
	// +kubebuilder:validation:Minimum=1
	Devices int32 `json:"devices,omitempty"`
}
