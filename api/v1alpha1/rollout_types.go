package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RolloutWave is a part of the nodes that have an update.
// +kubebuilder:validation:XValidation:rule="has(self.nodeSelector) || has(self.size)",message="a wave needs a nodeSelector, a size or both"
// +kubebuilder:validation:XValidation:rule="!has(self.size) || type(self.size) != int || self.size >= 1",message="size must be a number of nodes from 1 or a percentage from 1% to 100%",fieldPath=".size"
type RolloutWave struct {
	// name of the wave, unique in the policy. "rest" is the name of what follows the last wave. Written by the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self != 'rest'",message="rest is reserved for the nodes after the last wave; choose another name"
	Name string `json:"name,omitempty"`
	// nodeSelector chooses the nodes of the wave among those of the pool by their labels. Nodes that an earlier wave chose and
	// did not update may go too. Absent: every node. Written by the user.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// size is how many of the nodes with the update may be updated by the end of this wave, including those of earlier waves: a number from
	// 1, or a percentage of the pool's nodes that have the update, queued or not, rounded down but not below 1. Absent: every node that
	// nodeSelector chooses. Written by the user.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[1-9][0-9]?)%$`
	Size *intstr.IntOrString `json:"size,omitempty"`
	// soak is how long after the last verdict of the wave the next one opens. Default 0s, at most 720h. Written by the user.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) <= duration('720h')",message="soak must be a duration from 0s to 720h, such as 24h"
	Soak Duration `json:"soak,omitempty"`
}

// RolloutHalt says when an update halts. An update that halts is admitted to no more nodes of the pool; those that were admitted finish.
// +kubebuilder:validation:XValidation:rule="!has(self.maxFailures) || type(self.maxFailures) != int || self.maxFailures >= 1 && self.maxFailures <= 10000",message="maxFailures must be a number of nodes from 1 to 10000 or a percentage from 1% to 99%",fieldPath=".maxFailures"
type RolloutHalt struct {
	// maxFailures halts an update after this many failures in one wave: a number from 1, or a percentage of the nodes of the wave, rounded
	// up. A held node counts as failed too. Absent: one more than maxHeld, or without limit where maxConsecutiveFailures is given. Written
	// by the user.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]?%$`
	MaxFailures *intstr.IntOrString `json:"maxFailures,omitempty"`
	// maxHeld is how many nodes failed jobs may hold at once without halting the update. Default 0, at most 10000. Written by the user.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	MaxHeld int32 `json:"maxHeld,omitempty"`
	// maxConsecutiveFailures halts an update when it failed so often without a success in between. From 1 to 10000. Absent: it is not
	// looked at. Written by the user.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxConsecutiveFailures *int32 `json:"maxConsecutiveFailures,omitempty"`
	// lenientAfter is the percentage of the nodes with the update, rounded up, after whose success only maxHeld can still halt the update.
	// From 1% to 100%. Absent: never. Written by the user.
	// +optional
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:Pattern=`^(100|[1-9][0-9]?)%$`
	LenientAfter string `json:"lenientAfter,omitempty"`
}

// RolloutStatus is how far one update is in the pool: to one image, for one model of device.
type RolloutStatus struct {
	// model of the device, as PCI ids or slugs: "15b3:101d", "dell-inc:bios".
	// +required
	// +kubebuilder:validation:MaxLength=257
	Model string `json:"model"`
	// version that is flashed.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version"`
	// digest of the image.
	// +required
	Digest Digest `json:"digest"`
	// wave that is open: its name, or "rest" after the last one.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Wave string `json:"wave"`
	// fromVersions are the first 8 versions from which a node succeeded. While there are waves, nodes that come from any other version go
	// one after another until one of them has succeeded.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=64
	FromVersions []string `json:"fromVersions,omitempty"`
	// done is the number of nodes that succeeded in the waves before the open one.
	// +optional
	Done int32 `json:"done"`
	// succeeded is the number of nodes of the open wave that are healthy with the image.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// failed is how often the update failed in the open wave since it was last resumed.
	// +optional
	Failed int32 `json:"failed"`
	// consecutiveFailures is how often it failed since a node succeeded or it was resumed.
	// +optional
	ConsecutiveFailures int32 `json:"consecutiveFailures,omitempty"`
	// lastVerdictTime is when the last verdict was counted. The soak of a wave begins then.
	// +optional
	LastVerdictTime *metav1.Time `json:"lastVerdictTime,omitempty"`
	// haltedTime is when the update was halted: no node is admitted until spec.requests.resume changes. Absent while the update goes on.
	// +optional
	HaltedTime *metav1.Time `json:"haltedTime,omitempty"`
	// message says with numbers how far the open wave is and what the next one waits for, or why the update is halted.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
