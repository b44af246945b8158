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
	// +kubebuilder:validation:XValidation:rule="self != 'rest'",message="rest is the name of what follows the last wave; choose another one"
	Name string `json:"name,omitempty"`
	// nodeSelector chooses the nodes of the wave among those of the pool by their labels. Nodes that an earlier wave chose and
	// did not update may go too. Absent: every node. Written by the user.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// size is how many nodes with the update may be updated up to the end of this wave, those of the waves before included: a
	// number from 1, or a percentage of the pool's nodes that have the update, rounded down but not below 1. Absent: every node
	// that nodeSelector chooses. Written by the user.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[1-9][0-9]?)%$`
	Size *intstr.IntOrString `json:"size,omitempty"`
	// soak is how long after the last verdict of the wave the next one opens. Default 0s, at most 720h. Written by the user.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) <= duration('720h')",message="soak must be a duration from 0s to 720h, such as 24h"
	Soak *metav1.Duration `json:"soak,omitempty"`
}

// ExponentialWaves stands for waves of 1, 2, 4, 8 … nodes up to the budget.
type ExponentialWaves struct {
	// start is the number of nodes of the first wave; each one after it has twice as many as the one before. Default 1, at most
	// 1024. Written by the user.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	Start *int32 `json:"start,omitempty"`
	// soak is how long after the last verdict of a wave the next one opens. Default 0s, at most 720h. Written by the user.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) <= duration('720h')",message="soak must be a duration from 0s to 720h, such as 2h"
	Soak *metav1.Duration `json:"soak,omitempty"`
}

// RolloutHalt says when an update halts. Neither field given is maxFailures 1. A node that a failed job holds always halts.
type RolloutHalt struct {
	// maxFailures halts an update when so many nodes of one wave failed. From 1. Written by the user.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxFailures *int32 `json:"maxFailures,omitempty"`
	// maxFailedPercent halts an update when more than so many percent of the nodes of one wave failed. From 1 to 99. Written by
	// the user.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=99
	MaxFailedPercent *int32 `json:"maxFailedPercent,omitempty"`
}

// RolloutStatus is how far one update is in the pool: from one version to one image, for one model of device.
type RolloutStatus struct {
	// model of the device, as in a FirmwareSource's quarantine.
	// +required
	// +kubebuilder:validation:MaxLength=257
	Model string `json:"model"`
	// fromVersion runs before the update; empty where it is not known.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	FromVersion string `json:"fromVersion,omitempty"`
	// version that is flashed.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version"`
	// digest of the image.
	// +required
	Digest Digest `json:"digest"`
	// wave that is open: its name, "batch-N" with spec.exponential, or "rest" after the last one.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Wave string `json:"wave"`
	// startTime is the first admission since no node waited for the update or was updated.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// lastVerdictTime is when the last verdict was counted. The soak of a wave begins then.
	// +optional
	LastVerdictTime *metav1.Time `json:"lastVerdictTime,omitempty"`
	// done is the number of nodes that were judged in the waves before the open one.
	// +optional
	Done int32 `json:"done"`
	// succeeded is the number of nodes of the open wave that are healthy with the image.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// failed is the number of nodes of the open wave on which the update failed since it was last resumed.
	// +optional
	Failed int32 `json:"failed"`
	// running is the number of admitted nodes without a verdict.
	// +optional
	Running int32 `json:"running"`
	// waiting is the number of nodes with a queued job.
	// +optional
	Waiting int32 `json:"waiting"`
	// halted says why no node is admitted any more until spec.resume changes. Absent while the update goes on.
	// +optional
	Halted *HaltedRollout `json:"halted,omitempty"`
	// reason why no further node is admitted: RolloutHalted, DeadlineExceeded, WaveEmpty, WaveSoaking or WaveNotOpen. Absent
	// where nothing but the budget limits the nodes.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message says with numbers how far the open wave is and what the next one waits for.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// HaltedRollout is why an update is halted.
type HaltedRollout struct {
	// reason is NeedsIntervention, MaxFailures, MaxFailedPercent or NoSuccess.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// node that failed last.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
	// job that failed last.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Job string `json:"job,omitempty"`
	// message for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// time of the halt.
	// +required
	Time metav1.Time `json:"time,omitzero"`
}
