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
	// topologyBudgets bound how many nodes with the same value of a label are disturbed at once, such as one in each rack. The nodes of
	// all policies count. Each budget must hold, and maxUnavailable as well. At most 4. Written by the user.
	// +optional
	// +listType=map
	// +listMapKey=topologyKey
	// +kubebuilder:validation:MaxItems=4
	TopologyBudgets []TopologyBudget `json:"topologyBudgets,omitempty"`
	// maxQueued is how many nodes that could go may wait for admission at once. While as many wait, the operator queues no more jobs; the
	// other nodes are refused (reason QueueFull), counted in status.nodes.refused, and queued as soon as there is room. A job that waits for
	// a person or for a sick node takes no room. Jobs that persons made and nodes that the nodeSelector of a wave selects are never
	// refused, but count. Absent: no limit. From 1 to 100000. Written by the user.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxQueued *int32 `json:"maxQueued,omitempty"`
	// windows are when nodes may be admitted: inside any window with the effect Allow, if there is one, and inside none with the effect
	// Deny, and only if the job is expected to end in time. Without windows, always. What was admitted finishes, also when a window
	// closes. A job that takes over a held node does not wait for an Allow window, but does wait for a Deny window to end. At most 48.
	// Written by the user.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=48
	Windows []RolloutWindow `json:"windows,omitempty"`
	// waves are the parts of the pool in which an update spreads, in order, separately for each model of device and each image. The
	// next wave opens when each node of the one before has been judged and its soak has passed. After the last one the rest of the nodes
	// follows. At most 16. Written by the user.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.filter(w, has(w.size) && type(w.size) == int).map(w, int(w.size)).isSorted()",message="the size of a wave includes the waves before it, so it must not decrease"
	Waves []RolloutWave `json:"waves,omitempty"`
	// halt says after which failures an update is admitted to no more nodes of the pool, until requests.resume changes. With waves its
	// default is maxFailures 1 and maxHeld 0. Written by the user.
	// +optional
	Halt *RolloutHalt `json:"halt,omitempty"`
	// require is what must hold before a device of the pool is updated. A job keeps the value that was set when it was queued. Default
	// Unlock; an empty list requires nothing. Written by the user.
	// +optional
	// +kubebuilder:default={Unlock}
	Require Requirements `json:"require,omitempty"`
	// healthyFor is how long a node must look healthy without interruption after an update before its job succeeds. A job has what held
	// when it was queued. Default 60s, from 0s to 1h. Written by the user.
	// +optional
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) <= duration('1h')",message="healthyFor must be a duration from 0s to 1h, such as 60s"
	HealthyFor Duration `json:"healthyFor,omitempty"`
	// requests are what a person asks for, each by a text that differs from the one before. Written by the user.
	// +optional
	Requests *RolloutRequests `json:"requests,omitempty"`
}

// RolloutRequests are the requests that a RolloutPolicy answers: a text that differs from the last one seen is done once.
type RolloutRequests struct {
	// resume lifts the halts that exist when the operator sees it: any text, such as the reason. Written by the user; in the status the
	// last one that the operator acted on.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Resume string `json:"resume,omitempty"`
}

// RolloutPolicyStatus is written by the operator, in one apply with the version that it read.
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
	// requests are the last ones that the operator acted on.
	// +optional
	Requests *RolloutRequests `json:"requests,omitempty"`
	// nodes counts the nodes of the pool.
	// +optional
	Nodes *RolloutNodes `json:"nodes,omitempty"`
	// admitted is the ledger: the nodes that may be disturbed now, each with the one job that may do it. A node
	// enters it and leaves it in one compare-and-swap of this object. Each node appears in it once. At most 1024, and at most 128 KiB, so
	// that the object stays under 256 KiB: about 700 nodes with names of 30 bytes, 200 with names of 253. The list is atomic, because it
	// has one writer and field managers of each entry would double its size.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Admitted []AdmittedNode `json:"admitted,omitempty"`
	// rollouts is the progress of each update in the pool if the spec has waves or halt. At most 64; the ones that ended longest ago are
	// dropped first. Written together with the ledger, so that each verdict counts once.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Rollouts []RolloutStatus `json:"rollouts,omitempty"`
	// wavesHash is the hash of the spec.waves that rollouts are about: when the waves are edited, an update goes back to the first wave
	// that takes more nodes. Absent where the spec has no waves.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{16}$`
	WavesHash string `json:"wavesHash,omitempty"`
	// waiting counts the nodes that wait by reason, at most 32 reasons. The first is the reason of the node that is next in the
	// queue.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Waiting []WaitingNodes `json:"waiting,omitempty"`
	// startTime is when the present rollout of the pool began, or the last one: when a job waited or was admitted while the pool was at
	// rest. The condition Complete says since when it is over.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// estimatedCompletionTime is when the rollout will end at the pace that this operator measured, with the windows that are known. It
	// is absent while it cannot be known: before 3 jobs and as many as the budget have ended, while a node is held or waits for anything
	// but the budget or a window, and after the end.
	// +optional
	EstimatedCompletionTime *metav1.Time `json:"estimatedCompletionTime,omitempty"`
	// nextWindowTime is when the windows next let nodes be admitted. Absent while they do, and when that does not happen within a year.
	// +optional
	NextWindowTime *metav1.Time `json:"nextWindowTime,omitempty"`
}

// RolloutNodes counts the nodes of a pool.
type RolloutNodes struct {
	// selected is the number of nodes in the pool.
	// +optional
	Selected int32 `json:"selected"`
	// budget is maxUnavailable as a number of nodes, for the current size of the pool.
	// +optional
	Budget int32 `json:"budget"`
	// unavailable is the number of nodes that use up the budget: admitted, not Ready, cordoned by somebody else, at work by their own
	// report, or not heard of.
	// +optional
	Unavailable int32 `json:"unavailable"`
	// queued is the number of nodes that wait for admission.
	// +optional
	Queued int32 `json:"queued"`
	// refused is the number of nodes with due updates that are not queued, because maxQueued nodes wait already.
	// +optional
	Refused int32 `json:"refused"`
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
	// verdict is Failed when the job holds the node and that failure is counted in rollouts.
	// +optional
	Verdict AdmittedVerdict `json:"verdict,omitempty"`
}

// AdmittedVerdict is what was counted about an admitted job.
// +kubebuilder:validation:Enum=Failed
type AdmittedVerdict string

// VerdictFailed says that the failure of the job is counted.
const VerdictFailed AdmittedVerdict = "Failed"

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
}

// RolloutPolicy says how fast a pool of nodes may be disturbed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=rp,categories=firmware
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.spec.state`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes.selected`
// +kubebuilder:printcolumn:name="Budget",type=integer,JSONPath=`.status.nodes.budget`
// +kubebuilder:printcolumn:name="Unavailable",type=integer,JSONPath=`.status.nodes.unavailable`
// +kubebuilder:printcolumn:name="Queued",type=integer,JSONPath=`.status.nodes.queued`
// +kubebuilder:printcolumn:name="Waits",type=string,JSONPath=`.status.waiting[0].reason`
// +kubebuilder:printcolumn:name="ETA",type=string,JSONPath=`.status.estimatedCompletionTime`,priority=1
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
	// status is the ledger and what follows from it. Written by the operator.
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

// WindowEffect says what a window does.
// +kubebuilder:validation:Enum=Allow;Deny
type WindowEffect string

// The effects of a window.
const (
	// WindowAllow: nodes may be admitted inside it.
	WindowAllow WindowEffect = "Allow"
	// WindowDeny: no node is admitted inside it, whatever other windows say.
	WindowDeny WindowEffect = "Deny"
)

// RolloutWindow is a time in which nodes may be admitted, or may not: one that recurs, or one that happens once.
// +kubebuilder:validation:XValidation:rule="has(self.schedule) ? has(self.duration) && !has(self.startTime) && !has(self.endTime) : has(self.startTime) && has(self.endTime) && !has(self.duration) && !has(self.timeZone)",message="a window has either schedule and duration, or startTime and endTime, and a timeZone only with a schedule"
// +kubebuilder:validation:XValidation:rule="!has(self.startTime) || !has(self.endTime) || self.endTime > self.startTime",message="endTime must be after startTime",fieldPath=".endTime"
type RolloutWindow struct {
	// name of the window, unique in the list. Messages name it. Written by the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// effect is Allow (default) or Deny. Written by the user.
	// +optional
	// +kubebuilder:default=Allow
	Effect WindowEffect `json:"effect,omitempty"`
	// schedule is when the window begins, in the local time of timeZone: the five fields of cron (minute, hour, day of the month, month of
	// the year, day of the week), such as "0 22 * * 6", or @yearly, @monthly, @weekly, @daily or @hourly. Of the days of the week, 0 and 7
	// are Sunday. A local time that daylight saving skips counts as the moment the clocks go forward; of one that occurs twice, the first
	// counts. Written by the user.
	// +optional
	// +kubebuilder:validation:MinLength=6
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[-0-9a-zA-Z*/,?]+([ ]+[-0-9a-zA-Z*/,?]+){4})$')",message="schedule must have the five fields of cron: minute, hour, day of the month, month and day of the week, such as 0 22 * * 6"
	Schedule string `json:"schedule,omitempty"`
	// duration of a window with a schedule, as elapsed time, from 1m to 744h. Written by the user.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1m') && duration(self) <= duration('744h')",message="duration must be a duration from 1m to 744h, such as 4h"
	Duration Duration `json:"duration,omitempty"`
	// timeZone of the schedule is the name of a zone in the IANA database, such as Europe/Paris. Default UTC. Written by the user.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self != 'Local'",message="timeZone must be a name of the IANA database, such as Europe/Paris"
	TimeZone string `json:"timeZone,omitempty"`
	// startTime of a window that happens once. Written by the user.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// endTime of a window that happens once. Written by the user.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
}

// TopologyBudget bounds how many nodes with the same value of a label are disturbed at once.
// +kubebuilder:validation:XValidation:rule="type(self.maxUnavailable) == int ? self.maxUnavailable >= 0 : self.maxUnavailable.matches('^(100|[1-9]?[0-9])%$')",message="maxUnavailable must be a number of nodes from 0 or a percentage from 0% to 100%",fieldPath=".maxUnavailable"
type TopologyBudget struct {
	// topologyKey is the label whose value says in which domain a node is, such as example.com/rack. The nodes of the pool without that
	// label form one domain, because they may all be in the same one. Written by the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	TopologyKey string `json:"topologyKey,omitempty"`
	// maxUnavailable is how many nodes of one domain may be disturbed at once, as a number or a percentage of the domain's nodes.
	// The nodes of all policies count. Nodes that are not Ready or are cordoned by somebody else count as disturbed. A percentage is rounded down, but not
	// below 1; 0 and "0%" admit nothing. Written by the user.
	// +required
	// +kubebuilder:validation:XIntOrString
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

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
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
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
	// slowBoots is the number of nodes that are healthy and boot slowly since their update. The first of them halt the update; once a person
	// has resumed it, further ones are only counted. Those after the share of halt.lenientAfter has succeeded are not counted.
	// +optional
	SlowBoots int32 `json:"slowBoots,omitempty"`
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
