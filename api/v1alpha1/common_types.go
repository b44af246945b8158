package v1alpha1

import (
	"encoding/json"
	"slices"
	"time"
)

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

// Policy says what the product does when a device is not as it should be.
// +kubebuilder:validation:Enum=Apply;Validate
type Policy string

const (
	// PolicyApply lets the product change the device.
	PolicyApply Policy = "Apply"
	// PolicyValidate only reports the difference.
	PolicyValidate Policy = "Validate"
)

// DowngradePolicy says whether a version older than the running one may be flashed.
// +kubebuilder:validation:Enum=Forbid;Allow
type DowngradePolicy string

const (
	// DowngradeForbid refuses a version that is older than the running one. Where the driver declares an ordered
	// version format, it also refuses a version that cannot be compared with the running one.
	DowngradeForbid DowngradePolicy = "Forbid"
	// DowngradeAllow flashes the desired version, older or not.
	DowngradeAllow DowngradePolicy = "Allow"
)

// RollbackKind says how the running firmware of a device can be restored after an update.
// +kubebuilder:validation:Enum=None;ReadBack;Slot;Image
type RollbackKind string

// The kinds of rollback.
const (
	// RollbackNone: it cannot be restored.
	RollbackNone RollbackKind = "None"
	// RollbackReadBack: the image is read from the device before the update and can be written back.
	RollbackReadBack RollbackKind = "ReadBack"
	// RollbackSlot: the running firmware stays in another slot of the device.
	RollbackSlot RollbackKind = "Slot"
	// RollbackImage: an image of the running version is written, if a FirmwareSource holds one.
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

// Digest is the SHA-256 of an image, as "sha256:" and 64 lower-case hexadecimal digits. Each field checks that, with a message where people write it.
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

// Duration is a length of time such as "90s" or "1h30m". It is a string, so that the API server keeps it as it was written; each field
// says which lengths it accepts.
// +kubebuilder:validation:MaxLength=32
type Duration string

// Duration is the length of time, or the one given where nothing is written. A text that is no duration, which no field accepts, counts
// as nothing.
func (d Duration) Duration(absent time.Duration) time.Duration {
	value, err := time.ParseDuration(string(d))
	if err != nil {
		return absent
	}
	return value
}

// Requirement is something that must hold before a device is updated.
// +kubebuilder:validation:Enum=Rollback;WriteProtection;Unlock
type Requirement string

// The requirements.
const (
	// RequireRollback refuses to update a device whose running firmware could not be restored.
	RequireRollback Requirement = "Rollback"
	// RequireWriteProtection refuses to write on a host whose systemd does not keep a write out of the daemon's container. The end of
	// that container would end the write in the middle.
	RequireWriteProtection Requirement = "WriteProtection"
	// RequireUnlock refuses to update firmware that is measured into registers of the TPM on which an encrypted disk of the node depends,
	// unless the disk also opens by itself without them.
	RequireUnlock Requirement = "Unlock"
)

// Requirements is a set of requirements. What it does not name is reported, but refuses nothing.
// +listType=set
// +kubebuilder:validation:MaxItems=8
type Requirements []Requirement

// Has says whether the set names a requirement.
func (r Requirements) Has(requirement Requirement) bool { return slices.Contains(r, requirement) }

// SizeOf is what a part of an object takes, in bytes of JSON. By that it is bounded, so that the object fits into etcd.
func SizeOf(part any) int {
	out, _ := json.Marshal(part) // it holds nothing that cannot be written
	return len(out)
}
