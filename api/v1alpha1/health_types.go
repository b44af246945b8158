package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HealthResult says what the health gate found.
// +kubebuilder:validation:Enum=Healthy;Unhealthy;Unknown
type HealthResult string

const (
	// HealthResultHealthy marks a node that is as healthy as before the job.
	HealthResultHealthy HealthResult = "Healthy"
	// HealthResultUnhealthy marks a node that is not.
	HealthResultUnhealthy HealthResult = "Unhealthy"
	// HealthResultUnknown marks a verdict that was made under another boot and says nothing about this one.
	HealthResultUnknown HealthResult = "Unknown"
)

// HealthVerdict is what the health gate of a job found on the node. Nothing else writes verdicts: that a pod is Ready
// or somebody logged in is none.
type HealthVerdict struct {
	// result is Healthy, Unhealthy, or Unknown once the node runs under another boot id.
	// +required
	Result HealthResult `json:"result,omitempty"`
	// bootID under which the node was judged.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID,omitempty"`
	// time of the verdict.
	// +required
	Time metav1.Time `json:"time,omitzero"`
	// job that judged.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Job string `json:"job,omitempty"`
	// complaints lists what is worse than before. At most 32.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=512
	Complaints []string `json:"complaints,omitempty"`
}

// UnhealthyDevice marks a device that a job left unhealthy. Nothing is flashed to it until a person forgives it with
// the node's retryRequestedAt; the mark survives reboots.
type UnhealthyDevice struct {
	// since is when it was found unhealthy.
	// +required
	Since metav1.Time `json:"since,omitzero"`
	// job that left it so.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Job string `json:"job,omitempty"`
	// message says what was wrong.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
