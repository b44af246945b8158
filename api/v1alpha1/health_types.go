package v1alpha1

// HealthResult is the result of a health gate.
// +kubebuilder:validation:Enum=Healthy;Unhealthy;Unknown
type HealthResult string

const (
	// HealthResultHealthy marks a node that is as healthy as before the job.
	HealthResultHealthy HealthResult = "Healthy"
	// HealthResultUnhealthy marks a node that is less healthy than before the job.
	HealthResultUnhealthy HealthResult = "Unhealthy"
	// HealthResultUnknown marks a verdict from another boot; it says nothing about the current one.
	HealthResultUnknown HealthResult = "Unknown"
)

// HealthVerdict is what the health gate of a job found on the node. Only a health gate produces a verdict; a Ready pod
// or a successful login does not.
type HealthVerdict struct {
	// result is Healthy, Unhealthy, or Unknown once the node runs under another boot id.
	// +required
	Result HealthResult `json:"result,omitempty"`
	// bootID of the boot in which the node was checked.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID,omitempty"`
	// complaints lists what is worse than before. At most 32.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=512
	Complaints []string `json:"complaints,omitempty"`
}
