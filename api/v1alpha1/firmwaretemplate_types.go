package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TemplateState activates or pauses a template.
// +kubebuilder:validation:Enum=Active;Paused
type TemplateState string

const (
	// TemplateActive assigns firmware to every device the template matches.
	TemplateActive TemplateState = "Active"
	// TemplatePaused assigns nothing new and withdraws nothing.
	TemplatePaused TemplateState = "Paused"
)

// FirmwareTemplateSpec says which firmware should run on which devices of which nodes.
// +kubebuilder:validation:XValidation:rule="has(self.machine) || !has(self.rules) || self.rules.all(d, d.selector.class != 'BIOS' || has(d.selector.vendor) || has(d.selector.models) || has(d.selector.boardIDs) || has(d.selector.serialNumbers))",fieldPath=".rules",message="a rule of class BIOS must name a vendor, models, boardIDs or serialNumbers unless spec.machine names the machine; for the BIOS of every machine, set its vendor to any"
type FirmwareTemplateSpec struct {
	// nodeSelector selects nodes by their labels. An absent or empty selector selects every node. Written by the user.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="operator must be In or NotIn, with values, or Exists or DoesNotExist, without"
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// machine restricts the template to one machine model, as the node's DMI tables report it. Absent: any machine.
	// Written by the user.
	// +optional
	Machine *MachineSelector `json:"machine,omitempty"`

	// state is Active (default) to assign firmware, or Paused to assign nothing new and withdraw nothing. Written by
	// the user.
	// +optional
	// +kubebuilder:default=Active
	State TemplateState `json:"state,omitempty"`

	// priority orders the jobs that wait with updates of this template: higher is admitted first, whatever their age. Default 0,
	// from -1000 to 1000. Written by the user.
	// +optional
	// +kubebuilder:validation:Minimum=-1000
	// +kubebuilder:validation:Maximum=1000
	Priority int32 `json:"priority,omitempty"`

	// rules say which firmware which devices should run. At most 64, each with a name that is unique in the template. Written by
	// the user.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Rules []FirmwareRule `json:"rules,omitempty"`
}

// FirmwareRule assigns one firmware version to the devices its selector matches: on the nodes of a template, or, as a pin, on one node.
type FirmwareRule struct {
	// name identifies the rule within its template, or the pin within its node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// selector selects the devices.
	// +required
	Selector DeviceSelector `json:"selector,omitzero"`

	// version is the firmware version that should run, spelled as the device reports it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.trim() == self",message="version must not begin or end with spaces"
	Version string `json:"version,omitempty"`

	// sourceRef names the FirmwareSource that holds the image of this version.
	// +required
	SourceRef SourceReference `json:"sourceRef,omitzero"`

	// policy is Apply (default) to flash, or Validate to only report a difference.
	// +optional
	// +kubebuilder:default=Apply
	Policy Policy `json:"policy,omitempty"`

	// downgrade is Forbid (default) or Allow.
	// +optional
	// +kubebuilder:default=Forbid
	Downgrade DowngradePolicy `json:"downgrade,omitempty"`
}

// TemplateStatus is the status of a FirmwareTemplate or a ConfigurationTemplate. It is written by the operator. While the template keeps
// changing, the counters may lag by up to 30 seconds and the conditions by a second.
type TemplateStatus struct {
	// observedGeneration is the generation of the spec this status describes; -1 before the first reconciliation.
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready (a device matches, and every assigned one is as it should be) and, while they are True, Reconciling, Stalled
	// and Conflict.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// nodes counts the nodes that the template selects by label and machine model.
	// +optional
	Nodes TemplateNodes `json:"nodes"`
	// devices counts the devices that a rule of the template matches.
	// +optional
	Devices TemplateDevices `json:"devices"`
	// assignedDevices are the first 50 devices, in order of name, that the template assigns firmware or settings to; the counters above are
	// complete.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=253
	AssignedDevices []string `json:"assignedDevices,omitempty"`
}

// TemplateNodes counts nodes. A device is up to date if it runs the desired version or has the desired settings. On the nodes that are
// neither upToDate nor outOfDate the template decides nothing.
type TemplateNodes struct {
	// selected by label and machine model.
	// +optional
	Selected int32 `json:"selected"`
	// upToDate nodes have only upToDate ones of the assigned devices.
	// +optional
	UpToDate int32 `json:"upToDate"`
	// outOfDate nodes have a device of the outOfDate ones.
	// +optional
	OutOfDate int32 `json:"outOfDate"`
	// baselines are the different ones of selected nodes of one machine model; of several models, those of the one with the most. 1 says that
	// nodes of one model are equal, and 0 that no baseline is known. Otherwise Ready says which nodes differ from the others, and in what, once
	// nothing else is to be said.
	// +optional
	Baselines int32 `json:"baselines"`
}

// TemplateDevices counts devices. Those that are neither upToDate nor outOfDate match but are not the template's: a pin decides them,
// they conflict, or the template is paused.
type TemplateDevices struct {
	// matched by a rule of the template.
	// +optional
	Matched int32 `json:"matched"`
	// upToDate devices are assigned, and run the desired version or have the desired settings.
	// +optional
	UpToDate int32 `json:"upToDate"`
	// outOfDate devices do not, whatever the cause. All are assigned but those that a pin which matches nothing
	// may mean: they are blocked before that.
	// +optional
	OutOfDate int32 `json:"outOfDate"`
	// failed are those of outOfDate whose last update to the desired image, or change to the desired settings, failed.
	// +optional
	Failed int32 `json:"failed"`
	// blocked are those of outOfDate that cannot be updated now, for example because there is no image for the board, the source
	// is not ready, downgrades are forbidden, or a pin of the node matches nothing.
	// +optional
	Blocked int32 `json:"blocked"`
	// conflicting devices are matched by another rule or pin too.
	// +optional
	Conflicting int32 `json:"conflicting"`
}

// FirmwareTemplate says which firmware should run on which devices of which nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fwt,categories=firmware
// +kubebuilder:printcolumn:name="Selected",type=integer,JSONPath=`.status.nodes.selected`
// +kubebuilder:printcolumn:name="Up-To-Date",type=integer,JSONPath=`.status.nodes.upToDate`
// +kubebuilder:printcolumn:name="Out-Of-Date",type=integer,JSONPath=`.status.nodes.outOfDate`
// +kubebuilder:printcolumn:name="Baselines",type=integer,JSONPath=`.status.nodes.baselines`,priority=1
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.devices.failed`,priority=1
// +kubebuilder:printcolumn:name="Conflicts",type=integer,JSONPath=`.status.devices.conflicting`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FirmwareTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec says which firmware should run where. Written by the user.
	// +required
	Spec FirmwareTemplateSpec `json:"spec,omitzero"`
	// status counts the matched devices and how far their updates are. Written by the operator.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status TemplateStatus `json:"status,omitzero"`
}

// FirmwareTemplateList is a list of FirmwareTemplate.
//
// +kubebuilder:object:root=true
type FirmwareTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FirmwareTemplate `json:"items"`
}

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
