package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// QuarantineState is what a person decided about an image.
// +kubebuilder:validation:Enum=Active;Confirmed;Lifted
type QuarantineState string

const (
	// QuarantineActive leaves it to the reports on which nodes the image is not flashed.
	QuarantineActive QuarantineState = "Active"
	// QuarantineConfirmed forbids the image on every node, whoever reported it.
	QuarantineConfirmed QuarantineState = "Confirmed"
	// QuarantineLifted makes what is reported so far count no more. What is reported afterwards counts.
	QuarantineLifted QuarantineState = "Lifted"
)

// FirmwareQuarantineSpec names an image and a model of device, and says what a person decided about them.
type FirmwareQuarantineSpec struct {
	// digest of the image. Immutable. Written by the operator, or by the user who creates the quarantine.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="digest is immutable; create another quarantine"
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest Digest `json:"digest,omitempty"`
	// model of the devices that the image is not flashed to, as vendor and model: their PCI ids ("15b3:101d"), otherwise the names that
	// they report in lower case, with a dash for all but letters and digits ("dell-inc:bios"). "any:any" stands for every model.
	// Immutable. Written by the operator, or by the user who creates the quarantine.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=225
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+(-[a-z0-9]+)*:[a-z0-9]+(-[a-z0-9]+)*$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="model is immutable; create another quarantine"
	Model string `json:"model,omitempty"`
	// state is Active (default), where the reports decide on which nodes the image is not flashed; Confirmed, on every node; or Lifted:
	// what is reported so far counts no more, and a report after that counts again. Set Active, then Lifted, to lift that one too.
	// Written by the user.
	// +optional
	// +kubebuilder:default=Active
	State QuarantineState `json:"state,omitempty"`
}

// QuarantineScope says on which nodes an image is not flashed.
// +kubebuilder:validation:Enum=None;Policies;Fleet
type QuarantineScope string

const (
	// QuarantineNone is on no node. Nobody reported the image, a person lifted what was reported, or one node alone missed its network,
	// which something outside of it may explain.
	QuarantineNone QuarantineScope = "None"
	// QuarantinePolicies is on the nodes of the RolloutPolicies of those who reported it.
	QuarantinePolicies QuarantineScope = "Policies"
	// QuarantineFleet is on every node. A second node reported the image, or a person confirmed it.
	QuarantineFleet QuarantineScope = "Fleet"
)

// ReportState says whether a report counts.
// +kubebuilder:validation:Enum=Counted;Lifted;Withdrawn
type ReportState string

const (
	// ReportCounted is a report that counts.
	ReportCounted ReportState = "Counted"
	// ReportLifted is one that a person lifted.
	ReportLifted ReportState = "Lifted"
	// ReportWithdrawn is one that its job took back, because the previous firmware complained alike.
	ReportWithdrawn ReportState = "Withdrawn"
)

// QuarantineReport is the report of one job that the image made a device or its node unhealthy.
type QuarantineReport struct {
	// job that reported it.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Job string `json:"job,omitempty"`
	// node of the job.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
	// policy is the RolloutPolicy of the node when the operator was told. With the scope Policies the image is not flashed on its nodes.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Policy string `json:"policy,omitempty"`
	// evidence is Device (default), Network where only the network was missed, or Node where nothing named the device.
	// +optional
	Evidence Evidence `json:"evidence,omitempty"`
	// time when the operator was told, by the clock of the operator.
	// +required
	Time metav1.Time `json:"time,omitzero"`
	// message says what went wrong.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
	// state is Counted, Lifted by a person, or Withdrawn by the job.
	// +required
	State ReportState `json:"state,omitempty"`
}

// FirmwareQuarantineStatus is written by the operator.
type FirmwareQuarantineStatus struct {
	// observedGeneration is the generation of the spec this status describes; -1 before the first reconciliation.
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, whose message says on which nodes the image is not flashed, why, and what to do.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// version of the firmware, as the jobs that reported it say. Absent before the first report.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// scope says on which nodes the image is not flashed: None, Policies, those of the policies of the reports that count, or Fleet.
	// +optional
	Scope QuarantineScope `json:"scope,omitempty"`
	// reports lists who reported the image, at most 16, one for each job; 16 nodes are the scope Fleet, so that another one changes
	// nothing. A report stays when its job is deleted.
	// +optional
	// +listType=map
	// +listMapKey=job
	// +kubebuilder:validation:MaxItems=16
	Reports []QuarantineReport `json:"reports,omitempty"`
}

// FirmwareQuarantine says that an image made a device of a model or its node unhealthy, and on which nodes it is therefore flashed to
// no device of that model. The operator creates it when a job reports that; its name follows from the image and the model, so that
// there is one for both. Who may write it decides what may be flashed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fwq,categories=firmware
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.digest.substring(7, 23) + '.' + self.spec.model.replace(':', '.')",message="the name must be the first 16 digits of the digest and the model, joined by dots, such as 3b1f1c0fca2d0b5d.15b3.101d; there is one quarantine for an image and a model"
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.model`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.spec.state`
// +kubebuilder:printcolumn:name="Scope",type=string,JSONPath=`.status.scope`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FirmwareQuarantine struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec names the image and the model. The operator writes these, the user the state.
	// +required
	Spec FirmwareQuarantineSpec `json:"spec,omitzero"`
	// status is who reported the image, and what follows. Written by the operator.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status FirmwareQuarantineStatus `json:"status,omitzero"`
}

// FirmwareQuarantineList is a list of FirmwareQuarantine.
//
// +kubebuilder:object:root=true
type FirmwareQuarantineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FirmwareQuarantine `json:"items"`
}
