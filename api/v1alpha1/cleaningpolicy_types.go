package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CleaningState activates or pauses a cleaning policy.
// +kubebuilder:validation:Enum=Active;Paused
type CleaningState string

const (
	// CleaningActive runs the steps.
	CleaningActive CleaningState = "Active"
	// CleaningPaused starts none of them, and no node waits for them. Those that run end.
	CleaningPaused CleaningState = "Paused"
)

// CleaningTime is when the steps of a cleaning policy run on a node.
// +kubebuilder:validation:Enum=NewNode;OutOfService
type CleaningTime string

const (
	// CleaningNewNode is when a Node bears the taint nodefirmware.io/unverified, once its devices are at their target.
	CleaningNewNode CleaningTime = "NewNode"
	// CleaningOutOfService is when a person takes a node out of service with spec.service of its NodeFirmware.
	CleaningOutOfService CleaningTime = "OutOfService"
)

// CleaningPolicySpec says which steps run on which nodes, and when.
type CleaningPolicySpec struct {
	// nodeSelector selects the nodes by their labels. It must not be empty: what a policy does to every node is written on purpose, such as
	// {matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}. On a node that two policies select for the same time neither runs,
	// and both report the conflict. Written by the user.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && size(self.matchExpressions) > 0",message="nodeSelector must not be empty: write what selects the nodes on purpose"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="operator must be In or NotIn, with values, or Exists or DoesNotExist, without"
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// state is Active (default), or Paused to start no steps: a node then goes where it is to go without them. Written by the user.
	// +optional
	// +kubebuilder:default=Active
	State CleaningState `json:"state,omitempty"`
	// when the steps run: NewNode, before a Node that registered with the taint nodefirmware.io/unverified loses it, OutOfService, before a
	// node that a person took out of service may return, or both. On demand a person runs them with a FirmwareJob of type Steps. Written by
	// the user.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	When []CleaningTime `json:"when,omitempty"`
	// consent to erase what the steps name: the name of this policy. Required with a step erase, and not allowed without one. Written by the user.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Consent string `json:"consent,omitempty"`
	// steps that run, the highest priority first. The node is out of service from before the first one until after the last one. From 1 to
	// 32. Written by the user.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(s, s.priority == 0 || !self.exists(o, o.name != s.name && o.priority == s.priority))",message="two steps must not have the same priority; 0 switches a step off"
	Steps []CleaningStep `json:"steps,omitempty"`
}

// CleaningStep is a step of a cleaning policy, which runs on every device of the node that it applies to.
// +kubebuilder:validation:XValidation:rule="has(self.expect) == (self.name in ['verify-inventory', 'erase'])",message="expect is required for the steps verify-inventory and erase and not allowed for any other",fieldPath=".expect"
// +kubebuilder:validation:XValidation:rule="self.name != 'erase' || !has(self.expect) || self.expect.all(e, e.selector.class == 'Disk' && e.count > 0)",message="erase is for drives: each class must be Disk, and each count more than 0",fieldPath=".expect"
// +kubebuilder:validation:XValidation:rule="!has(self.arguments) || !(self.name in ['verify-inventory', 'verify-firmware', 'reset-bios-settings'])",message="this step takes no arguments",fieldPath=".arguments"
// +kubebuilder:validation:XValidation:rule="self.name != 'erase' || !has(self.arguments) || self.arguments.all(a, a.name == 'method' && a.value in ['Crypto', 'Block', 'Overwrite'])",message="erase takes the argument method, which is Crypto, Block or Overwrite",fieldPath=".arguments"
type CleaningStep struct {
	// name of the step: verify-inventory, verify-firmware, reset-bios-settings, erase, or one that a driver provides.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// priority of the step in this policy: the highest runs first, and 0 never. From 0 to 1000.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Priority *int32 `json:"priority,omitempty"`
	// expect is what verify-inventory compares the node with, or names the drives that erase erases: all that one of its selectors selects, and none
	// where the number is another one. At most 64.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Expect []ExpectedDevices `json:"expect,omitempty"`
	// arguments of the step, by name; at most 16. Erase takes a method: Crypto, Block or Overwrite, absent for the first of these that each drive offers.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Arguments []StepArgument `json:"arguments,omitempty"`
	// deadline is the time without progress after which the job says that the step is stalled, which ends nothing. From 1m to 168h.
	// Absent: that of the step.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="deadline must be a duration from 1m to 168h, such as 12h"
	Deadline Duration `json:"deadline,omitempty"`
}

// CleaningPolicyStatus is written by the operator.
type CleaningPolicyStatus struct {
	// observedGeneration is the generation of the spec this status describes; -1 before the first reconciliation.
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready and, while it is True, Conflict.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// nodes counts the nodes of the policy.
	// +optional
	Nodes CleaningNodes `json:"nodes,omitzero"`
}

// CleaningNodes counts the nodes of a cleaning policy.
type CleaningNodes struct {
	// selected are those that nodeSelector selects.
	// +optional
	Selected int32 `json:"selected"`
	// clean are those that are out of service and passed the steps.
	// +optional
	Clean int32 `json:"clean"`
	// failed are those on which a step failed, and which wait for a person.
	// +optional
	Failed int32 `json:"failed"`
}

// CleaningPolicy says which steps prove a node that is new, and which leave one clean that goes out of service.
//
// +kubebuilder:validation:XValidation:rule="self.spec.steps.exists(s, s.name == 'erase') ? has(self.spec.consent) && self.spec.consent == self.metadata.name : !has(self.spec.consent)",message="consent must be the name of this policy where a step erases drives, and absent where none does",fieldPath=".spec.consent"
// +kubebuilder:validation:XValidation:rule="!self.spec.steps.exists(s, s.name == 'erase') || !('NewNode' in self.spec.when)",message="a policy that erases drives is for OutOfService alone: a node that registers again would lose its data",fieldPath=".spec.when"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=clp,categories=firmware
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.spec.state`
// +kubebuilder:printcolumn:name="Selected",type=integer,JSONPath=`.status.nodes.selected`
// +kubebuilder:printcolumn:name="Clean",type=integer,JSONPath=`.status.nodes.clean`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.nodes.failed`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CleaningPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec says which steps run on which nodes, and when. Written by the user.
	// +required
	Spec CleaningPolicySpec `json:"spec,omitzero"`
	// status counts the nodes. Written by the operator.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status CleaningPolicyStatus `json:"status,omitzero"`
}

// CleaningPolicyList is a list of CleaningPolicy.
//
// +kubebuilder:object:root=true
type CleaningPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CleaningPolicy `json:"items"`
}

// Runs reports whether the policy has steps for that time.
func (p *CleaningPolicy) Runs(t CleaningTime) bool { return slices.Contains(p.Spec.When, t) }
