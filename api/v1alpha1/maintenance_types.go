package v1alpha1

// MaintenanceRequestType is what a daemon asks of the operator for its node.
// +kubebuilder:validation:Enum=Drain;Release
type MaintenanceRequestType string

// The types of a request for maintenance.
const (
	// MaintenanceDrain: cordon the node and evict its pods.
	MaintenanceDrain MaintenanceRequestType = "Drain"
	// MaintenanceRelease: return the node to service, unless somebody else cordoned it.
	MaintenanceRelease MaintenanceRequestType = "Release"
)

// MaintenanceRequest asks the operator to take a node out of service or to return it. No request at all changes nothing: a node
// is never returned because a request was lost.
type MaintenanceRequest struct {
	// id tells an answer to this request from one to an earlier one. A release has the id of the drain that it ends.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id,omitempty"`
	// type is Drain or Release.
	// +required
	Type MaintenanceRequestType `json:"type,omitempty"`
}

// MaintenanceState is how far the operator has carried out a request.
// +kubebuilder:validation:Enum=Refused;Draining;Drained;Released
type MaintenanceState string

// The states of a maintenance that the operator carries out.
const (
	// MaintenanceRefused: the node has no admitted job, or there is no such Node; nothing was done.
	MaintenanceRefused MaintenanceState = "Refused"
	// MaintenanceDraining: the node is cordoned and its pods are being evicted.
	MaintenanceDraining MaintenanceState = "Draining"
	// MaintenanceDrained: the node is cordoned, and no pod was left that a drain takes away.
	MaintenanceDrained MaintenanceState = "Drained"
	// MaintenanceReleased: the operator's cordon is gone.
	MaintenanceReleased MaintenanceState = "Released"
)

// MaintenanceAnswer is how far the operator has carried out a MaintenanceRequest.
type MaintenanceAnswer struct {
	// requestID is the id of the request that this answers.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	RequestID string `json:"requestID,omitempty"`
	// state is Refused, Draining, Drained or Released.
	// +required
	State MaintenanceState `json:"state,omitempty"`
	// nodeUID is the uid of the Node that was cordoned; a Node that is registered again has another one.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	NodeUID string `json:"nodeUID,omitempty"`
	// message says what is waited for, and names pods that are still there.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
