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

// FirmwareRule assigns one firmware version to the devices its selector matches.
type FirmwareRule struct {
	// name identifies the rule within the template.
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
	// +kubebuilder:validation:XValidation:rule="self.trim() == self",message="version must not begin or end with blanks"
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

// FirmwareTemplateStatus is written by the operator. The counters may lag behind a change by up to 30 seconds while
// the template changes all the time, and conditions by a second.
type FirmwareTemplateStatus struct {
	// observedGeneration is the generation of the spec this status describes; -1 before the first reconciliation.
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready (a device matches, and every assigned one runs its desired firmware) and, while they are True, Reconciling, Stalled
	// and Conflict.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// serversInGroup is the number of nodes the template selects by label and machine model. It is the sum of
	// updatesApplied, updatesNotApplied and serversNotAssigned.
	// +optional
	ServersInGroup int32 `json:"serversInGroup"`
	// updatesApplied is the number of selected nodes on which every assigned device runs the desired version.
	// +optional
	UpdatesApplied int32 `json:"updatesApplied"`
	// updatesNotApplied is the number of selected nodes with an assigned device that does not run the desired version,
	// whatever the cause.
	// +optional
	UpdatesNotApplied int32 `json:"updatesNotApplied"`
	// serversNotAssigned is the number of selected nodes on which the template assigns firmware to no device.
	// +optional
	ServersNotAssigned int32 `json:"serversNotAssigned"`
	// devicesMatched is the number of devices a rule of the template matches. Those that are neither in devicesApplied nor
	// in devicesNotApplied match but are not assigned by the template: a pin decides them, they conflict, or the template is
	// paused.
	// +optional
	DevicesMatched int32 `json:"devicesMatched"`
	// devicesApplied is the number of assigned devices that run the desired version.
	// +optional
	DevicesApplied int32 `json:"devicesApplied"`
	// devicesNotApplied is the number of assigned devices that do not run the desired version, whatever the cause.
	// +optional
	DevicesNotApplied int32 `json:"devicesNotApplied"`
	// devicesPending is the number of assigned devices that wait for their update.
	// +optional
	DevicesPending int32 `json:"devicesPending"`
	// devicesUpdating is the number of assigned devices a running job is working on.
	// +optional
	DevicesUpdating int32 `json:"devicesUpdating"`
	// devicesFailed is the number of assigned devices whose last update to the desired image failed.
	// +optional
	DevicesFailed int32 `json:"devicesFailed"`
	// devicesConflicting is the number of matched devices that another rule or pin matches too.
	// +optional
	DevicesConflicting int32 `json:"devicesConflicting"`
	// devicesBlocked is the number of assigned devices that cannot be updated now, for example because there is no
	// image for the board, the source is not ready, or downgrades are forbidden.
	// +optional
	DevicesBlocked int32 `json:"devicesBlocked"`
	// devices are the first 50 devices, in order of name, that the template assigns firmware to; the counters above are
	// complete.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=253
	Devices []string `json:"devices,omitempty"`
	// otherDevices are the first 50 devices, in order of name, that a rule matches and the template does not assign
	// firmware to.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=253
	OtherDevices []string `json:"otherDevices,omitempty"`
}

// FirmwareTemplate says which firmware should run on which devices of which nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fwt,categories=firmware
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.serversInGroup`
// +kubebuilder:printcolumn:name="Applied",type=integer,JSONPath=`.status.updatesApplied`
// +kubebuilder:printcolumn:name="Not Applied",type=integer,JSONPath=`.status.updatesNotApplied`
// +kubebuilder:printcolumn:name="Devices",type=integer,JSONPath=`.status.devicesMatched`,priority=1
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.devicesFailed`,priority=1
// +kubebuilder:printcolumn:name="Conflicts",type=integer,JSONPath=`.status.devicesConflicting`,priority=1
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
	Status FirmwareTemplateStatus `json:"status,omitzero"`
}

// FirmwareTemplateList is a list of FirmwareTemplate.
//
// +kubebuilder:object:root=true
type FirmwareTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FirmwareTemplate `json:"items"`
}
