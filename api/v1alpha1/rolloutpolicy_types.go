package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// DefaultRolloutPolicy is the name of the policy for every node that no other policy selects. The operator creates it
// with maxUnavailable 1 if it does not exist.
const DefaultRolloutPolicy = "default"

// RolloutState activates, pauses or aborts a policy.
// +kubebuilder:validation:Enum=Active;Paused;Aborted
type RolloutState string

const (
	// RolloutActive admits queued jobs as the budget allows.
	RolloutActive RolloutState = "Active"
	// RolloutPaused admits nothing new; admitted jobs finish.
	RolloutPaused RolloutState = "Paused"
	// RolloutAborted withdraws the queued jobs and queues none; admitted jobs finish.
	RolloutAborted RolloutState = "Aborted"
)

// RolloutPolicySpec says how fast a pool of nodes may be disturbed.
// +kubebuilder:validation:XValidation:rule="!has(self.waves) || !has(self.exponential)",message="exponential stands for waves; give one of both",fieldPath=".exponential"
// +kubebuilder:validation:XValidation:rule="has(self.maxUnavailable) ? (type(self.maxUnavailable) == int ? self.maxUnavailable >= 0 : self.maxUnavailable.matches('^(100|[1-9]?[0-9])%$')) : true",message="maxUnavailable must be a number of nodes from 0 or a percentage from 0% to 100%",fieldPath=".maxUnavailable"
type RolloutPolicySpec struct {
	// nodeSelector selects the nodes of the pool by their labels. An absent or empty selector selects every node. A node
	// that two policies select is admitted by neither, and both report the conflict. The selector of the policy named
	// "default" is not used: that policy applies to every node that no other policy selects. Written by the user.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="operator must be In or NotIn, with values, or Exists or DoesNotExist, without"
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// state is Active (default), Paused to admit nothing new, or Aborted to withdraw the queued jobs as well. Written by the user.
	// +optional
	// +kubebuilder:default=Active
	State RolloutState `json:"state,omitempty"`
	// maxUnavailable is how many nodes of the pool may be disturbed at once, as a number or a percentage. Nodes that
	// are not Ready or are cordoned by somebody else count as disturbed. A percentage is rounded down, but not below 1;
	// 0 and "0%" admit nothing. Default 1. Written by the user.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// rollback is BestEffort (default), or Required to refuse the update of a device whose running firmware could not
	// be restored. Written by the user.
	// +optional
	// +kubebuilder:default=BestEffort
	Rollback RollbackPolicy `json:"rollback,omitempty"`
	// writeProtection is BestEffort (default), or Required to refuse updates on a node where the end of the daemon's container would end
	// a running write, such as a host without systemd. Written by the user.
	// +optional
	// +kubebuilder:default=BestEffort
	WriteProtection WriteProtection `json:"writeProtection,omitempty"`
	// soak is how long a node must look healthy without interruption after an update before its job succeeds. It is copied
	// into each job when that is queued. Default 60s, from 0s to 1h. Written by the user.
	// +optional
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) <= duration('1h')",message="soak must be a duration from 0s to 1h, such as 60s"
	Soak *metav1.Duration `json:"soak,omitempty"`
	// isolationTimeout is how long a node that its update may have cut off waits for the API server before it restores the
	// previous firmware by itself. It is copied into each job when that is queued. Default 10m, from 1m to 24h. Written by
	// the user.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="isolationTimeout must be a duration from 1m to 24h, such as 10m"
	IsolationTimeout *metav1.Duration `json:"isolationTimeout,omitempty"`
	// windows are when nodes may be admitted: in any of them, and only if the expected duration of the job still fits. Without
	// windows, always. What was admitted finishes, also when a window closes or a freeze begins. A job that takes over a held node waits
	// for no window. At most 16. Written by the user.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Windows []RolloutWindow `json:"windows,omitempty"`
	// freezes are when no node is admitted, whatever the windows say: not even a job that takes over a held node. At most 32.
	// Written by the user.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Freezes []RolloutFreeze `json:"freezes,omitempty"`
	// expectedDuration is how long a job is expected to take while too little is known: until three jobs with updates for the same
	// models, or with the same steps, have succeeded beside those of the slowest node. From then on 95 of 100 of those were no longer
	// than what is expected. Default 30m, from 1m to 24h. Written by the user.
	// +optional
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="expectedDuration must be a duration from 1m to 24h, such as 30m"
	ExpectedDuration *metav1.Duration `json:"expectedDuration,omitempty"`
	// topologyBudgets bound how many nodes with the same value of a label are disturbed at once, such as one in each rack. Each of them
	// must hold, and maxUnavailable as well. At most 4. Written by the user.
	// +optional
	// +listType=map
	// +listMapKey=topologyKey
	// +kubebuilder:validation:MaxItems=4
	TopologyBudgets []TopologyBudget `json:"topologyBudgets,omitempty"`
	// maxQueued is how many nodes of the pool may wait for admission at once. While as many wait, the operator queues no more jobs;
	// the other nodes are refused (reason QueueFull), counted in status.refused, and queued as soon as there is room. Jobs that persons made
	// and nodes that the nodeSelector of a wave selects are never refused, but count. Absent: no limit. From 1 to 100000. Written by the
	// user.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxQueued *int32 `json:"maxQueued,omitempty"`
	// waves are the parts of the pool in which an update spreads, in order, separately for each model of device, each version
	// that runs and each image. The next wave opens when each node of the one before has succeeded and its soak has passed.
	// After the last one the rest of the nodes follows. At most 16. Written by the user.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.filter(w, has(w.size) && type(w.size) == int).map(w, int(w.size)).isSorted()",message="the size of a wave counts the waves before it, so no number may be less than one before it"
	Waves []RolloutWave `json:"waves,omitempty"`
	// exponential stands for waves of 1, 2, 4, 8 … nodes up to the budget. Written by the user.
	// +optional
	Exponential *ExponentialWaves `json:"exponential,omitempty"`
	// halt says after which failures an update is admitted to no more nodes of the pool, until resume changes. With waves or
	// exponential the default is maxFailures 1. Written by the user.
	// +optional
	Halt *RolloutHalt `json:"halt,omitempty"`
	// resume lifts the halts that exist when the operator sees it, and begins deadlines anew: any text, such as the reason, that
	// differs from the one before. Written by the user.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Resume string `json:"resume,omitempty"`
	// deadline is how long after its first admission an update may be admitted; what runs then finishes. From 1m to 8760h.
	// Absent: for ever. Written by the user.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1m') && duration(self) <= duration('8760h')",message="deadline must be a duration from 1m to 8760h, such as 72h"
	Deadline *metav1.Duration `json:"deadline,omitempty"`
}

// RolloutPolicyStatus is written by the operator.
type RolloutPolicyStatus struct {
	// observedGeneration is the generation of the spec this status describes; -1 before the first reconciliation.
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready and Complete, and, while they are True, Reconciling, Stalled and Conflict.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// admitted is the ledger: the nodes that may be disturbed now, each with the one job that may do it. A node
	// enters it and leaves it in one compare-and-swap of this object. Each node stands in it once. At most 1024, and at most 128 KiB, so
	// that the object stays under 256 KiB: about 700 nodes with names of 30 bytes, 200 with names of 253. It is atomic, because it has
	// one writer and a field manager of each entry would take as much again.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Admitted []AdmittedNode `json:"admitted,omitempty"`
	// rollouts are the updates that the pool is followed in where the spec has waves, exponential, halt or deadline: at most 64,
	// those that are over longest are forgotten first. Written together with the ledger, so that each verdict counts once.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Rollouts []RolloutStatus `json:"rollouts,omitempty"`
	// resumed is the value of spec.resume that was acted on last.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Resumed string `json:"resumed,omitempty"`
	// queue holds the first 100 nodes that wait for admission, in order, each with the reason why it waits. It holds fewer, and the
	// messages of rollouts are shorter, where the status would have more than 208 KiB.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Queue []QueuedNode `json:"queue,omitempty"`
	// waiting counts the nodes that wait by reason, at most 32 reasons. The first is the reason of the node that is next in the
	// queue.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Waiting []WaitingNodes `json:"waiting,omitempty"`
	// progress says how far the rollout is. Absent before the first job.
	// +optional
	Progress *RolloutProgress `json:"progress,omitempty"`
	// nodes is the number of nodes in the pool.
	// +optional
	Nodes int32 `json:"nodes"`
	// budget is maxUnavailable as a number of nodes, for the current size of the pool.
	// +optional
	Budget int32 `json:"budget"`
	// unavailable is the number of nodes that use up the budget: admitted, not Ready, or cordoned by somebody else.
	// +optional
	Unavailable int32 `json:"unavailable"`
	// queued is the number of nodes that wait for admission.
	// +optional
	Queued int32 `json:"queued"`
	// refused is the number of nodes with due updates that are not queued, because maxQueued nodes wait already.
	// +optional
	Refused int32 `json:"refused,omitempty"`
	// nextWindow is when the windows and freezes next let nodes be admitted. Absent while they do, and when that does not happen
	// within a year.
	// +optional
	NextWindow *metav1.Time `json:"nextWindow,omitempty"`
}

// AdmittedNode is one entry of the ledger.
type AdmittedNode struct {
	// node that may be disturbed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
	// job that may disturb it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Job string `json:"job,omitempty"`
	// jobUID of that job.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	JobUID string `json:"jobUID,omitempty"`
	// time of the admission.
	// +required
	Time metav1.Time `json:"time,omitzero"`
	// verdict is Failed when the job holds the node and that failure is counted in rollouts.
	// +optional
	Verdict AdmittedVerdict `json:"verdict,omitempty"`
}

// AdmittedVerdict is what was counted about an admitted job.
// +kubebuilder:validation:Enum=Failed
type AdmittedVerdict string

// VerdictFailed says that the failure of the job is counted.
const VerdictFailed AdmittedVerdict = "Failed"

// QueuedNode is a node that waits for admission.
type QueuedNode struct {
	// node that waits.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
	// job that waits.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Job string `json:"job,omitempty"`
	// reason why it waits, one of the reasons of the job's Admitted condition.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
}

// RolloutPolicy says how fast a pool of nodes may be disturbed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=rp,categories=firmware
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.spec.state`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Budget",type=integer,JSONPath=`.status.budget`
// +kubebuilder:printcolumn:name="Unavailable",type=integer,JSONPath=`.status.unavailable`
// +kubebuilder:printcolumn:name="Queued",type=integer,JSONPath=`.status.queued`
// +kubebuilder:printcolumn:name="Waits",type=string,JSONPath=`.status.waiting[0].reason`
// +kubebuilder:printcolumn:name="Succeeded",type=integer,JSONPath=`.status.progress.succeeded`,priority=1
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.progress.failed`,priority=1
// +kubebuilder:printcolumn:name="ETA",type=string,JSONPath=`.status.progress.estimatedCompletionTime`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RolloutPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec says how fast and under which limits the pool may be disturbed. Written by the user.
	// +optional
	// +kubebuilder:default={}
	Spec RolloutPolicySpec `json:"spec,omitzero"`
	// status is the ledger and the queue. Written by the operator.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status RolloutPolicyStatus `json:"status,omitzero"`
}

// RolloutPolicyList is a list of RolloutPolicy.
//
// +kubebuilder:object:root=true
type RolloutPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RolloutPolicy `json:"items"`
}
