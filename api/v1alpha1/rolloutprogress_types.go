package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RolloutProgress is how far the present rollout of a pool is, or how the last one went. A rollout begins when a job waits or is
// admitted while the pool is at rest, and ends when none does any more.
type RolloutProgress struct {
	// startTime is when the rollout began.
	// +required
	StartTime metav1.Time `json:"startTime,omitzero"`
	// completionTime is when no job of the pool waited or was admitted any more. Absent while the rollout goes on.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// succeeded is the number of jobs that gave their place back and had succeeded. Each job counts once, in the write that takes
	// its place back, whoever is the operator then.
	// +optional
	Succeeded int32 `json:"succeeded"`
	// failed is the number of jobs that gave their place back, or had it taken over, and had failed. A node whose job failed may
	// have succeeded with a later one.
	// +optional
	Failed int32 `json:"failed"`
	// secondsPerNode is the measured pace: the time since startTime in which the pool was open, divided by the jobs that ended, in
	// seconds. Absent before the first one ended.
	// +optional
	SecondsPerNode *int32 `json:"secondsPerNode,omitempty"`
	// estimatedCompletionTime is when the rollout will end at that pace, with the windows and freezes that are known. It is absent
	// while it cannot be known: before 3 jobs and as many as the budget have ended, while a node is held or waits for anything but
	// the budget or a window, and after the end.
	// +optional
	EstimatedCompletionTime *metav1.Time `json:"estimatedCompletionTime,omitempty"`
}

// WaitingNodes are the nodes of a pool that wait for one reason.
type WaitingNodes struct {
	// reason why they wait, one of the reasons of the job's Admitted condition.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// nodes is their number.
	// +required
	// +kubebuilder:validation:Minimum=1
	Nodes int32 `json:"nodes,omitempty"`
	// node is the first of them in the order of the queue.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
}
