package v1alpha1

// DeviceClass names the kind of hardware component a device is.
// +kubebuilder:validation:Enum=NIC;StorageController;Disk;BIOS
type DeviceClass string

// The device classes. One physical card, drive or system board is one device.
const (
	// ClassNIC is a network adapter card, whatever the number of its ports or functions.
	ClassNIC DeviceClass = "NIC"
	// ClassStorageController is a RAID controller or a SAS or SCSI host bus adapter, not the drives behind it.
	ClassStorageController DeviceClass = "StorageController"
	// ClassDisk is an NVMe controller or a SCSI/ATA drive.
	ClassDisk DeviceClass = "Disk"
	// ClassBIOS is the system firmware (UEFI or legacy BIOS) of the machine.
	ClassBIOS DeviceClass = "BIOS"
)

// UpdatePolicy says what may be done when the running firmware is not the wanted one.
// +kubebuilder:validation:Enum=Update;Validate
type UpdatePolicy string

const (
	// UpdatePolicyUpdate lets the product flash the device.
	UpdatePolicyUpdate UpdatePolicy = "Update"
	// UpdatePolicyValidate only reports the difference.
	UpdatePolicyValidate UpdatePolicy = "Validate"
)

// DowngradePolicy says whether a version older than the running one may be flashed.
// +kubebuilder:validation:Enum=Forbid;Allow
type DowngradePolicy string

const (
	// DowngradeForbid refuses a target that is older than what runs, and one that cannot be ordered against it
	// where the driver declares an ordered version format.
	DowngradeForbid DowngradePolicy = "Forbid"
	// DowngradeAllow flashes whatever the template names.
	DowngradeAllow DowngradePolicy = "Allow"
)

// RollbackPolicy says whether an update may begin that could not be undone.
// +kubebuilder:validation:Enum=Required;BestEffort
type RollbackPolicy string

const (
	// RollbackRequired refuses to update a device whose running firmware could not be brought back.
	RollbackRequired RollbackPolicy = "Required"
	// RollbackBestEffort updates it; when that goes wrong, a person has to mend it.
	RollbackBestEffort RollbackPolicy = "BestEffort"
)

// RollbackKind says how the running firmware of a device can be brought back after another one was written.
// +kubebuilder:validation:Enum=None;ReadBack;Slot;Image
type RollbackKind string

// The kinds of rollback.
const (
	// RollbackNone: not at all.
	RollbackNone RollbackKind = "None"
	// RollbackReadBack: the image is read out of the device beforehand and written back.
	RollbackReadBack RollbackKind = "ReadBack"
	// RollbackSlot: it stays in a slot of the device.
	RollbackSlot RollbackKind = "Slot"
	// RollbackImage: an image of that version is written, where a FirmwareSource holds one.
	RollbackImage RollbackKind = "Image"
)

// ActivationKind says what a staged image needs before it runs.
// +kubebuilder:validation:Enum=None;DeviceReset;DriverReload;Reboot;PowerCycle
type ActivationKind string

// The kinds of activation, from the least to the most disruptive.
const (
	ActivationNone         ActivationKind = "None"
	ActivationDeviceReset  ActivationKind = "DeviceReset"
	ActivationDriverReload ActivationKind = "DriverReload"
	ActivationReboot       ActivationKind = "Reboot"
	ActivationPowerCycle   ActivationKind = "PowerCycle"
)

// Digest is the SHA-256 of an image, as "sha256:" and 64 lower-case hexadecimal digits.
// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
// +kubebuilder:validation:MaxLength=71
type Digest string

// SourceReference names a FirmwareSource.
type SourceReference struct {
	// name of the FirmwareSource that holds the image.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// OriginKind names the kind of object an assignment came from.
// +kubebuilder:validation:Enum=Template;Pin
type OriginKind string

const (
	// OriginTemplate marks an assignment by a rule of a FirmwareTemplate.
	OriginTemplate OriginKind = "Template"
	// OriginPin marks an assignment by a pin of the node's NodeFirmware.
	OriginPin OriginKind = "Pin"
)

// Origin names the object, and the part of it, that assigned a firmware to a device.
type Origin struct {
	// kind of the assigning object: a FirmwareTemplate ("Template") or a pin of the node's NodeFirmware ("Pin").
	// +required
	Kind OriginKind `json:"kind,omitempty"`
	// name of the FirmwareTemplate or of the NodeFirmware.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// uid of that object, so that a recreated one is told from the old one.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
	// generation of that object when it assigned the firmware.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Generation *int64 `json:"generation,omitempty"`
	// rule is the name of the template's device rule or of the pin.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Rule string `json:"rule,omitempty"`
}
