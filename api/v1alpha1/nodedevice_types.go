package v1alpha1

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeDeviceSpec names the node a device is in and what should run on it.
// +kubebuilder:validation:XValidation:rule="(has(self.firmware) || has(self.configuration)) == has(self.origin)",message="firmware or configuration must be set together with origin",fieldPath=".origin"
type NodeDeviceSpec struct {
	// nodeName is the Node the device is in. Written once by the node's daemon; immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="nodeName is immutable"
	NodeName string `json:"nodeName,omitempty"`
	// origin lists the objects that the desired firmware and settings come from: the template or pin that assigned the firmware, the source
	// of its image, and the template that assigned the settings. At most 4. Absent if no template or pin matches. Written only by the operator.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	Origin []Origin `json:"origin,omitempty"`
	// firmware that should run. Absent if no template or pin matches. Written only by the operator.
	// +optional
	Firmware *DesiredFirmware `json:"firmware,omitempty"`
	// configuration are the settings that should be in force. Absent if no ConfigurationTemplate matches. Written only by the operator.
	// +optional
	Configuration *DesiredConfiguration `json:"configuration,omitempty"`
}

// DesiredFirmware is the firmware one device should run.
type DesiredFirmware struct {
	// version that should run.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// digest of the image for this device's board. Absent while the source is not ready or holds no image for the
	// board; until then nothing is flashed.
	// +optional
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest Digest `json:"digest,omitempty"`
	// policy is Apply to flash, or Validate to only report a difference.
	// +required
	Policy Policy `json:"policy,omitempty"`
	// downgrade says whether an older version may be flashed.
	// +required
	Downgrade DowngradePolicy `json:"downgrade,omitempty"`
	// path holds the upgrade paths of the source that matter for the version, at most 128. Absent if nothing restricts how it is reached.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Path []UpgradeStep `json:"path,omitempty"`
}

// Images are those that a device may be flashed with on the way to the firmware, its own first; none where there is no firmware.
func (f *DesiredFirmware) Images() []Digest {
	if f == nil {
		return nil
	}
	out := []Digest{f.Digest}
	for _, s := range f.Path {
		out = append(out, s.Digest)
	}
	return slices.DeleteFunc(out, func(d Digest) bool { return d == "" })
}

// NodeDeviceStatus is what the daemon read from the hardware. Only the conditions Conflict and Blocked are written by
// the operator.
type NodeDeviceStatus struct {
	// observedGeneration is the generation of the spec this status describes; -1 before the first reconciliation.
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready (the device runs its desired firmware), Inspected (it could be read) and, while they are True,
	// Reconciling, Stalled, Conflict and Blocked.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// class of the device.
	// +optional
	Class DeviceClass `json:"class,omitempty"`
	// uniqueID is the stable identity of the hardware: base MAC or GUID, WWN, EUI or NGUID. Never a bus address, a
	// device name or a serial number alone.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	UniqueID string `json:"uniqueID,omitempty"`
	// vendor is the name of the manufacturer as the device or its bus reports it.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Vendor string `json:"vendor,omitempty"`
	// model is the model name the device reports.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model,omitempty"`
	// pciID are the PCI vendor and device ids, each as four hexadecimal digits ("15b3:101d"); absent for devices that are not on the
	// PCI bus.
	// +optional
	// +kubebuilder:validation:MaxLength=9
	PCIID string `json:"pciID,omitempty"`
	// subsystemID are the PCI vendor and device ids of the board around the chip, spelled like pciID ("15b3:0016"); absent for devices
	// that do not report them.
	// +optional
	// +kubebuilder:validation:MaxLength=9
	SubsystemID string `json:"subsystemID,omitempty"`
	// boardID is the id the board checks an image against, such as PSID or board.id.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BoardID string `json:"boardID,omitempty"`
	// serialNumber of the device. Some boards share serial numbers, so it is not an identity.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	SerialNumber string `json:"serialNumber,omitempty"`
	// pciAddress of the device's first function as domain:bus:device.function.
	// +optional
	// +kubebuilder:validation:MaxLength=12
	PCIAddress string `json:"pciAddress,omitempty"`
	// ports of a network adapter in order of PCI address. At most 32.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Ports []DevicePort `json:"ports,omitempty"`
	// arrays are the redundant arrays that the drive is an active member of, such as "md0", as the daemon found them with its
	// last scan. One job updates at most one drive of each array. At most 8.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=128
	Arrays []string `json:"arrays,omitempty"`
	// powerOnHours is for how long the device had been powered on at powerOnHoursTime, by its own count. Drives of the NVMe standard have
	// one, and SAS drives that log background scans. It is written again when it is a day off what follows from it and the time since, so
	// that nothing is written of a drive that stays on.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2000000
	PowerOnHours *int64 `json:"powerOnHours,omitempty"`
	// powerOnHoursTime is when powerOnHours was read.
	// +optional
	PowerOnHoursTime *metav1.Time `json:"powerOnHoursTime,omitempty"`
	// firmware is what the device runs and stores, read from the device itself.
	// +optional
	Firmware *ObservedFirmware `json:"firmware,omitempty"`
	// applied says where the firmware that the device runs came from. Absent until the device first runs what is desired.
	// +optional
	Applied *AppliedFirmware `json:"applied,omitempty"`
	// failure blocks updates of the device until a person requests a retry in the spec of the NodeFirmware. With a digest it is the last
	// failed update and blocks that image. Without one, a job left the device unhealthy and every image is blocked, across reboots too.
	// Absent if nothing is blocked.
	// +optional
	Failure *DeviceFailure `json:"failure,omitempty"`
	// configuration says how far the device has the settings of spec.configuration. Absent where none are desired, and until the daemon has
	// read the parameters of the device.
	// +optional
	Configuration *ObservedConfiguration `json:"configuration,omitempty"`
	// parameters are those that spec.configuration names, those of the others that are not as it says, and those that an update of the
	// firmware changed though nothing names them, as the device has them. At most 160, and as many as fit into 32 KiB.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=160
	Parameters []ObservedParameter `json:"parameters,omitempty"`
}

// ConfigurationState says whether the desired settings are in force.
// +kubebuilder:validation:Enum=UpToDate;OutOfDate;Invalid
type ConfigurationState string

// The states of a configuration.
const (
	// ConfigurationUpToDate: all that the device reports is as desired.
	ConfigurationUpToDate ConfigurationState = "UpToDate"
	// ConfigurationOutOfDate: a setting is not in force.
	ConfigurationOutOfDate ConfigurationState = "OutOfDate"
	// ConfigurationInvalid: the device does not take the settings. Ready says why.
	ConfigurationInvalid ConfigurationState = "Invalid"
)

// ObservedConfiguration says how far a device has its desired settings.
type ObservedConfiguration struct {
	// digest of the settings that this is about. While it is not that of spec.configuration, the daemon has not looked at those yet.
	// +required
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest Digest `json:"digest,omitempty"`
	// state is UpToDate, OutOfDate, or Invalid where the device does not take the settings: then its condition Ready says why.
	// +required
	State ConfigurationState `json:"state,omitempty"`
	// activation is the most disruptive one that those of the settings need which are not in force. Absent where all are.
	// +optional
	Activation ActivationKind `json:"activation,omitempty"`
	// failure is the last change to the desired settings that failed; it keeps them from the device until others are desired, or a person
	// requests a retry in the spec of the NodeFirmware. Its digest is that of the settings. Absent if nothing is kept away.
	// +optional
	Failure *DeviceFailure `json:"failure,omitempty"`
}

// ObservedParameter is one parameter of a device.
type ObservedParameter struct {
	// name of the parameter: that of the setting, such as numVFs, or as the device's tool spells it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`
	// current value in force. Absent where the device does not report it.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Current *string `json:"current,omitempty"`
	// next is the value that the device stores, and that is in force after the next activation. Absent where the device does not report it.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Next *string `json:"next,omitempty"`
	// was is what the device stored before its firmware was updated, where that changed the parameter and no ConfigurationTemplate or pin names
	// it. Absent otherwise, and once the device stores that again.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Was *string `json:"was,omitempty"`
}

// DevicePort is one port of a network adapter.
type DevicePort struct {
	// pciAddress of the port's PCI function.
	// +optional
	// +kubebuilder:validation:MaxLength=12
	PCIAddress string `json:"pciAddress,omitempty"`
	// netDevice is the name of the kernel's network device.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	NetDevice string `json:"netDevice,omitempty"`
	// linkType is Ethernet, InfiniBand or Unknown.
	// +optional
	LinkType LinkType `json:"linkType,omitempty"`
}

// LinkType is the link layer of a port.
// +kubebuilder:validation:Enum=Ethernet;InfiniBand;Unknown
type LinkType string

// ObservedFirmware is what a device runs and stores.
type ObservedFirmware struct {
	// running is the version the device executes now.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Running string `json:"running,omitempty"`
	// stored is the version that will run after activation. It equals running when nothing is staged, and is absent if
	// the device does not report it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Stored string `json:"stored,omitempty"`
	// activation is what a newly stored image needs before it runs.
	// +optional
	Activation ActivationKind `json:"activation,omitempty"`
	// driver that reads and writes the device; absent if there is none and the device is only listed.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Driver string `json:"driver,omitempty"`
	// versionFormat declares how the driver orders versions of this device: Dotted (decimal sections between dots) or
	// Plain (equal or different, never ordered). Downgrades can be recognised only where it is Dotted. Absent means
	// Plain.
	// +optional
	VersionFormat VersionFormat `json:"versionFormat,omitempty"`
	// rollback says how the running firmware can be restored after an update. Absent means None.
	// +optional
	Rollback RollbackKind `json:"rollback,omitempty"`
	// access is ReadWrite, or ReadOnly for a device that can be read and not updated; the first of notes says why.
	// +optional
	Access DeviceAccess `json:"access,omitempty"`
	// notes say what is out of the ordinary: why the device is read-only, why its activation is more disruptive than for others of its
	// kind, such as "InUse: …" for an adapter with virtual functions, why a driver that supports it better was not chosen, and why
	// what runs cannot be restored. At most 4.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=256
	Notes []string `json:"notes,omitempty"`
}

// VersionFormat declares how versions of a device are ordered.
// +kubebuilder:validation:Enum=Plain;Dotted
type VersionFormat string

// The version formats.
const (
	// VersionFormatPlain versions are equal or different, and never ordered.
	VersionFormatPlain VersionFormat = "Plain"
	// VersionFormatDotted versions are decimal sections between dots, ordered section by section.
	VersionFormatDotted VersionFormat = "Dotted"
)

// DeviceAccess says whether a device can be updated.
// +kubebuilder:validation:Enum=ReadOnly;ReadWrite
type DeviceAccess string

const (
	// AccessReadOnly marks a device that can be read and not updated.
	AccessReadOnly DeviceAccess = "ReadOnly"
	// AccessReadWrite marks a device that can be updated.
	AccessReadWrite DeviceAccess = "ReadWrite"
)

// AppliedFirmware is the provenance of the firmware that a device runs.
type AppliedFirmware struct {
	// digest of the image that a job put on the device. Absent where the device was found at its target, so that nobody knows which
	// image brought it there.
	// +optional
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest Digest `json:"digest,omitempty"`
	// origin lists the objects that the firmware and the settings came from, as they were for the job, or when the device was found to be
	// as they desire: the template or pin and the source of the firmware, and the template of the settings. Where one of them is not as it
	// was, status.obsolete of the NodeFirmware lists it. At most 4.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	Origin []Origin `json:"origin,omitempty"`
	// bootID of the boot in which the version was read from the device. Absent where the host does not say.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID,omitempty"`
	// time at which it was read.
	// +required
	Time metav1.Time `json:"time,omitzero"`
}

// DeviceFailure is an update that failed, or left its device unhealthy.
type DeviceFailure struct {
	// reason of the failure, as in the job's Failed condition; Unhealthy or Restored where there is no digest.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// digest of the image that failed. Absent where the device was left unhealthy, and where other firmware was restored while no image of
	// the desired version was known.
	// +optional
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest Digest `json:"digest,omitempty"`
	// message says what happened.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// job that failed.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Job string `json:"job,omitempty"`
	// time of the failure.
	// +required
	Time metav1.Time `json:"time,omitzero"`
	// request is the request to retry of the NodeFirmware that was in force for the job; another one clears the failure. Absent where
	// there was none.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Request string `json:"request,omitempty"`
}

// NodeDevice is one updatable component of a node: a network adapter card, a drive, the system firmware. The node's
// daemon creates it, keeps its status up to date, and deletes it when the hardware is gone.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=ndev,categories=firmware
// +kubebuilder:selectablefield:JSONPath=`.spec.nodeName`
// +kubebuilder:selectablefield:JSONPath=`.status.class`
// +kubebuilder:selectablefield:JSONPath=`.status.pciID`
// +kubebuilder:selectablefield:JSONPath=`.status.firmware.running`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.status.class`
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.status.model`
// +kubebuilder:printcolumn:name="Running",type=string,JSONPath=`.status.firmware.running`
// +kubebuilder:printcolumn:name="Desired",type=string,JSONPath=`.spec.firmware.version`
// +kubebuilder:printcolumn:name="Board",type=string,JSONPath=`.status.boardID`,priority=1
// +kubebuilder:printcolumn:name="PCI",type=string,JSONPath=`.status.pciAddress`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeDevice struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec names the node (written by the daemon) and the desired firmware (written by the operator).
	// +required
	Spec NodeDeviceSpec `json:"spec,omitzero"`
	// status is what the daemon read from the hardware.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status NodeDeviceStatus `json:"status,omitzero"`
}

// NodeDeviceList is a list of NodeDevice.
//
// +kubebuilder:object:root=true
type NodeDeviceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeDevice `json:"items"`
}

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

// Reaches is when the device will have been powered on for a number of hours if it stays on; it may have been. False where the device does
// not say for how long it was on.
func (s *NodeDeviceStatus) Reaches(hours int64) (time.Time, bool) {
	if s.PowerOnHours == nil || s.PowerOnHoursTime == nil {
		return time.Time{}, false
	}
	return s.PowerOnHoursTime.Add(time.Duration(hours-*s.PowerOnHours) * time.Hour), true
}

// IsUnhealthy reports whether a job left the device unhealthy, so that every image waits for a retry.
func (s *NodeDeviceStatus) IsUnhealthy() bool {
	return s.Failure != nil && s.Failure.Digest == "" && s.Failure.Reason != ReasonRestored
}

// Running is the version that the device runs; empty where it could not be read.
func (s *NodeDeviceStatus) Running() string {
	if s.Firmware == nil {
		return ""
	}
	return s.Firmware.Running
}
