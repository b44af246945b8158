package v1alpha1

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// JobType says what a job does.
// +kubebuilder:validation:Enum=Update;Steps;Backup;Restore
type JobType string

const (
	// JobTypeUpdate brings the listed devices to the listed versions.
	JobTypeUpdate JobType = "Update"
	// JobTypeSteps runs the listed steps in the listed order, including disabled ones.
	JobTypeSteps JobType = "Steps"
	// JobTypeBackup reads the running firmware of the devices into the archive of the node, and takes no node out of service.
	JobTypeBackup JobType = "Backup"
	// JobTypeRestore brings the listed devices back to firmware that the archive of the node holds.
	JobTypeRestore JobType = "Restore"
)

// FirmwareJobSpec says what is done on which node. Priority and cancel may be changed.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.cancel) || has(self.cancel)",message="cancel cannot be removed once it is set",fieldPath=".cancel"
type FirmwareJobSpec struct {
	// nodeName is the Node the job runs on. Immutable. Written by whoever creates the job.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="nodeName is immutable"
	NodeName string `json:"nodeName,omitempty"`
	// priority orders the queue before the age of jobs: higher is admitted first. It may be changed. From -1000 to 1000. Absent:
	// the highest priority of the FirmwareTemplates that the devices get their firmware from, or 0. Written by the user.
	// +optional
	// +kubebuilder:validation:Minimum=-1000
	// +kubebuilder:validation:Maximum=1000
	Priority *int32 `json:"priority,omitempty"`
	// task is what the job does. Immutable as a whole. Written by whoever creates the job.
	// +required
	Task JobTask `json:"task,omitzero"`
	// cancel asks the job to stop: at once, or after gracePeriod, if the running step may be interrupted, otherwise after
	// that step. A job that has already written then holds the node. A write and a rollback are never interrupted. Written by
	// the user; it can be added but not removed.
	// +optional
	Cancel *JobCancel `json:"cancel,omitempty"`
}

// JobTask is what a job does: a union of the types Update and Restore, which have devices, Backup, which may have them, and Steps, which
// has steps. Only persons make jobs of another type than Update, but for the steps of a CleaningPolicy.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="task is immutable; create a new job"
// +kubebuilder:validation:XValidation:rule="self.type == 'Backup' || has(self.devices) == (self.type in ['Update', 'Restore'])",message="a job of type Update or Restore lists its devices, one of type Backup may, and one of type Steps has none",fieldPath=".devices"
// +kubebuilder:validation:XValidation:rule="self.type != 'Update' || !has(self.devices) || self.devices.all(d, has(d.uniqueID) && has(d.version) == has(d.digest) && (has(d.digest) || has(d.configuration)))",message="each device of a job of type Update has a uniqueID, and a version with its digest, a configuration, or all of them",fieldPath=".devices"
// +kubebuilder:validation:XValidation:rule="self.type != 'Backup' || !has(self.devices) || self.devices.all(d, !has(d.version) && !has(d.digest))",message="a job of type Backup names its devices only; it archives what they run",fieldPath=".devices"
// +kubebuilder:validation:XValidation:rule="self.type == 'Update' || !has(self.devices) || self.devices.all(d, !has(d.model) && !has(d.origin) && !has(d.fromVersion) && !has(d.rollbackDigest) && !has(d.rollbackSource) && !has(d.configuration))",message="only a job of type Update has a model, an origin, a fromVersion, a rollbackDigest, a rollbackSource or a configuration",fieldPath=".devices"
// +kubebuilder:validation:XValidation:rule="!has(self.devices) || self.devices.all(d, !has(d.rollbackSource) || has(d.rollbackDigest))",message="a rollbackSource needs the rollbackDigest of the image in it",fieldPath=".devices"
// +kubebuilder:validation:XValidation:rule="self.type == 'Steps' ? has(self.steps) : !has(self.steps)",message="a job of type Steps lists its steps; any other type has none",fieldPath=".steps"
// +kubebuilder:validation:XValidation:rule="self.type == 'Steps' || !has(self.cleaningPolicyRef)",message="only a job of type Steps has a cleaningPolicyRef",fieldPath=".cleaningPolicyRef"
type JobTask struct {
	// type of the task: Update, Steps, Backup or Restore. Update brings devices to a version. Steps runs steps. Backup reads what
	// runs into the archive of the node, in service, and needs no admission. Restore writes back what the archive holds, as an update.
	// +required
	Type JobType `json:"type,omitempty"`
	// devices that an Update or a Restore brings to a version, and that a Backup reads, at most 128. Absent in a Backup: all of the node.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Devices []TaskDevice `json:"devices,omitempty"`
	// steps of a Steps job, in the order they run, at most 128.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Steps []RequestedStep `json:"steps,omitempty"`
	// cleaningPolicyRef names the CleaningPolicy whose steps these are, all of them and in its order; the node is out of service while they run.
	// The daemon runs them only while that policy has them so, selects the node, and the node is out of service or new. Absent in a job that a
	// person made. Written by the operator.
	// +optional
	CleaningPolicyRef *CleaningPolicyReference `json:"cleaningPolicyRef,omitempty"`
	// require refuses the whole job before anything is changed: Rollback, when the running firmware of one of its devices could not
	// be restored; WriteProtection, when the end of the daemon's container would end a write; Unlock, when an encrypted disk
	// of the node would not open by itself afterwards. A rollback is refused for neither of the latter. Absent: none. The planner takes it from the node's RolloutPolicy.
	// +optional
	Require Requirements `json:"require,omitempty"`
	// healthyFor is how long the node must look healthy without interruption before the health gate passes. Default 60s, from 0s
	// to 1h. The planner takes it from the node's RolloutPolicy.
	// +optional
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) <= duration('1h')",message="healthyFor must be a duration from 0s to 1h, such as 60s"
	HealthyFor Duration `json:"healthyFor,omitempty"`
	// request is the request to retry of the NodeFirmware that was in force when the planner made the job: what failed under
	// another one is cleared for this job. At most 128 bytes. Absent in a job that a person made; then the daemon takes the
	// one that is in force when it starts the job.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Request *string `json:"request,omitempty"`
	// follows is the failed job that held the node when the planner made this one, which takes the node over from it and from no other. Absent
	// where none did, and in a job that a person made, which takes over whatever failed job holds the node.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Follows string `json:"follows,omitempty"`
	// turn orders the jobs that the planner makes for the node, whatever clocks say: it is higher in a later one. Absent in a job that a
	// person made.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Turn int64 `json:"turn,omitempty"`
}

// CleaningPolicyReference names a CleaningPolicy.
type CleaningPolicyReference struct {
	// name of the CleaningPolicy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// CancelMode says how far a cancellation goes.
// +kubebuilder:validation:Enum=Graceful;Force
type CancelMode string

const (
	// CancelGraceful ends a step that may be interrupted and lets any other step finish, its further rounds and the repetition
	// after an interruption included.
	CancelGraceful CancelMode = "Graceful"
	// CancelForce waits for no grace period, and begins no further round or repetition of a step that is not part of every
	// update. A write that runs is not ended by it either.
	CancelForce CancelMode = "Force"
)

// JobCancel asks a job to stop.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.mode) || oldSelf.mode != 'Force' || has(self.mode) && self.mode == 'Force'",message="mode cannot be changed back from Force",fieldPath=".mode"
// +kubebuilder:validation:XValidation:rule="has(self.gracePeriod) == has(oldSelf.gracePeriod) && (!has(self.gracePeriod) || self.gracePeriod == oldSelf.gracePeriod)",message="the grace period of a cancellation cannot be changed; set mode to Force to end it",fieldPath=".gracePeriod"
type JobCancel struct {
	// mode is Graceful (default) or Force. Graceful ends a step that may be interrupted after gracePeriod, and any
	// other step ends by itself first. Force ends the grace period, and begins no further round of a step that works in rounds
	// and no repetition of it after an interruption. Neither ends a write that runs: the job ends after it. Neither leaves
	// firmware half written: a write that was interrupted is still repeated once. Written by the user; Graceful may be changed
	// to Force, and Force not back.
	// +optional
	// +kubebuilder:default=Graceful
	Mode CancelMode `json:"mode,omitempty"`
	// gracePeriod is how long a running step that may be interrupted has to end by itself, counted from when the daemon
	// of the node sees the cancellation. No other step begins meanwhile, and the step is not begun again where the daemon
	// restarts. Default 0s, which ends it at once; at most 1h. With the mode Force it has no effect. Written by the user
	// with the cancellation, and not changed afterwards.
	// +optional
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) <= duration('1h')",message="gracePeriod must be a duration from 0s to 1h, such as 30s"
	GracePeriod Duration `json:"gracePeriod,omitempty"`
}

// TaskDevice is a device that a job updates, reads or restores. Whether it may be downgraded is what the NodeDevice says, with which the
// daemon compares the job; a restore may go back.
type TaskDevice struct {
	// name of the NodeDevice.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// uniqueID of the hardware the job was made for. Other hardware under the same name is refused. Required in an Update.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	UniqueID string `json:"uniqueID,omitempty"`
	// model of the device when the job was planned, as <vendor>:<model>; if the device is blamed, its image is
	// quarantined for this model. Absent in a job that a person made, which then has no image quarantined.
	// +optional
	// +kubebuilder:validation:MaxLength=257
	Model string `json:"model,omitempty"`
	// origin is NodeFirmware if a pin selected the version when the job was planned: such an update waits for no wave of the RolloutPolicy, and
	// counts in none. FirmwareTemplate or absent: it waits for its wave. Written by whoever creates the job.
	// +optional
	// +kubebuilder:validation:Enum=FirmwareTemplate;NodeFirmware
	Origin OriginKind `json:"origin,omitempty"`
	// fromVersion is the version that ran when the job was planned.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	FromVersion string `json:"fromVersion,omitempty"`
	// version that should run after the job. Absent in an Update that only changes settings. A Restore takes the newest image of it in the
	// archive; without version and digest, the last that was good: what a rollback would restore, or else the newest one that does not run.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// digest of the image. Required with a version in an Update. In a Restore, that of the image in the archive.
	// +optional
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest Digest `json:"digest,omitempty"`
	// rollbackDigest is an image of fromVersion for the device's board. Absent if no FirmwareSource holds one. The node uses it if it
	// flashed it itself, or if a FirmwareSource that the job, or the pin or rule of the device, names describes it.
	// +optional
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	RollbackDigest Digest `json:"rollbackDigest,omitempty"`
	// rollbackSource is the name of the FirmwareSource that holds the image to roll back to; only with a rollbackDigest.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	RollbackSource string `json:"rollbackSource,omitempty"`
	// configuration is the digest of the settings that the device gets, which are those of the NodeDevice when the job begins; the daemon
	// refuses others. Absent if its settings are left as they are.
	// +optional
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Configuration Digest `json:"configuration,omitempty"`
}

// RequestedStep is one step of a Steps job.
// +kubebuilder:validation:XValidation:rule="has(self.expect) == (self.name == 'verify-inventory')",message="expect is required for the step verify-inventory and not allowed for any other",fieldPath=".expect"
// +kubebuilder:validation:XValidation:rule="!has(self.arguments) || !(self.name in ['verify-inventory', 'verify-firmware', 'reset-bios-settings'])",message="this step takes no arguments",fieldPath=".arguments"
// +kubebuilder:validation:XValidation:rule="self.name != 'erase' || has(self.device)",message="erase is only for a device that the step names",fieldPath=".device"
// +kubebuilder:validation:XValidation:rule="self.name != 'erase' || has(self.arguments) && self.arguments.exists(a, a.name == 'serialNumber') && self.arguments.all(a, a.name == 'serialNumber' || a.name == 'method' && a.value in ['Crypto', 'Block', 'Overwrite'])",message="erase needs the argument serialNumber, and takes method, which is Crypto, Block or Overwrite",fieldPath=".arguments"
type RequestedStep struct {
	// name of the step: verify-inventory, verify-firmware, reset-bios-settings, erase, or one that a driver provides.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// device the step works on: the name of a NodeDevice of the node; required for erase. Absent: every device the step applies to.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Device string `json:"device,omitempty"`
	// expect is what verify-inventory compares the node with. At most 64.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Expect []ExpectedDevices `json:"expect,omitempty"`
	// arguments of the step, by name; at most 16. Erase needs the serialNumber of the drive, and takes a method: Crypto, Block or Overwrite, absent
	// for the first of these that the drive offers. A job with one that the step does not take fails before anything is done.
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

// StepArgument is a value that a step takes by its name.
type StepArgument struct {
	// name of the argument, such as serialNumber.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`
	Name string `json:"name,omitempty"`
	// value of the argument, at most 256 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Value string `json:"value,omitempty"`
}

// ExpectedDevices says how many devices of a kind a node should have.
type ExpectedDevices struct {
	// selector selects the devices that are counted.
	// +required
	Selector DeviceSelector `json:"selector,omitzero"`
	// count is the exact number of such devices.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=256
	Count *int32 `json:"count,omitempty"`
}

// StepState is the state of a step.
// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed;Skipped
type StepState string

// The states of a step.
const (
	StepPending   StepState = "Pending"
	StepRunning   StepState = "Running"
	StepSucceeded StepState = "Succeeded"
	StepFailed    StepState = "Failed"
	StepSkipped   StepState = "Skipped"
)

// StepPart says what a step is part of.
// +kubebuilder:validation:Enum=Update;Rollback
type StepPart string

// The parts of a job.
const (
	PartUpdate   StepPart = "Update"
	PartRollback StepPart = "Rollback"
)

// FirmwareJobStatus is written by the process that executes the job: the node's daemon, or with the update strategy pod the
// pod of the job. The operator writes the condition Admitted, and takes Ready, Stalled, Failed and completionTime over when it ends a job
// that no process can execute: the Node is gone, or there is no handler for its machine.
type FirmwareJobStatus struct {
	// observedGeneration is the generation of the spec this status describes; -1 before the first reconciliation.
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready (completed successfully), Admitted, MaintenanceReady, RollbackAvailable, Protected, Complete, Failed,
	// RolledBack, Held, and, while they are True, Reconciling, Stalled and Cancelling.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// startTime is when the daemon started the job.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when the job ended, successfully or not.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// steps of the job in the order they run, listed before the first one runs. At most 512, and fewer
	// where the job would exceed 256 KiB: then the messages are shortened, and the first steps that succeeded are left out, but no
	// failed step, and none that erased a drive.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Steps []JobStep `json:"steps,omitempty"`
	// request is the request to retry that is in force for the job since the daemon started it; another one clears its failure.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Request *string `json:"request,omitempty"`
	// reboots is how often the job rebooted the node.
	// +optional
	Reboots int32 `json:"reboots"`
	// verdict is the last result of the job's health gate.
	// +optional
	Verdict *HealthVerdict `json:"verdict,omitempty"`
	// blamed lists the devices of the task whose image made them or the node unhealthy. The image is quarantined for the model of the
	// device, as the task names both; a device without a model in the task accuses no image. At most 128.
	// +optional
	// +listType=map
	// +listMapKey=device
	// +kubebuilder:validation:MaxItems=128
	Blamed []BlamedDevice `json:"blamed,omitempty"`
}

// BlamedDevice is a device whose image made it or its node unhealthy.
type BlamedDevice struct {
	// device that the image was flashed to.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Device string `json:"device,omitempty"`
	// evidence is Device (default) when the device itself was worse with the image, or when what was wrong is mended with the
	// previous firmware. It is Network while only the network was missed: a switch may be what failed. It is Node while only the
	// node as a whole was unhealthy. A report of one node with either does not quarantine the image.
	// +optional
	// +kubebuilder:default=Device
	Evidence Evidence `json:"evidence,omitempty"`
	// message says what went wrong.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// Evidence says what blame is based on.
// +kubebuilder:validation:Enum=Device;Network;Node
type Evidence string

const (
	// EvidenceDevice says that the device was worse with the image, or that the previous firmware mended what was wrong.
	EvidenceDevice Evidence = "Device"
	// EvidenceNetwork says that only links, gateways and the API server were missed, which something outside the node may explain.
	EvidenceNetwork Evidence = "Network"
	// EvidenceNode says that only the node as a whole was unhealthy, and nothing named the device.
	EvidenceNode Evidence = "Node"
)

// JobStep is one step of a job.
type JobStep struct {
	// name of the step, such as "flash" or "reboot".
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// device the step works on; absent for a step of the whole node.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Device string `json:"device,omitempty"`
	// part is Update (default), or Rollback for a step that restores the previous firmware.
	// +optional
	Part StepPart `json:"part,omitempty"`
	// state of the step.
	// +required
	State StepState `json:"state,omitempty"`
	// attempt counts how often the step was begun; it only grows.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempt int32 `json:"attempt,omitempty"`
	// progressPercent of a running step that reports progress, from 0 to 100.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	ProgressPercent *int32 `json:"progressPercent,omitempty"`
	// startTime of the last attempt.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime of the last attempt.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// message says what the step found or why it failed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// sanitization is what proves that the step erased its drive. The operator makes a SanitizationCertificate of it.
	// +optional
	Sanitization *Sanitization `json:"sanitization,omitempty"`
}

// FirmwareJob is one execution on one node: queued, admitted, run and kept as history.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fwj,categories=firmware
// +kubebuilder:selectablefield:JSONPath=`.spec.nodeName`
// +kubebuilder:selectablefield:JSONPath=`.spec.task.type`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.task.type`
// +kubebuilder:printcolumn:name="Admitted",type=string,JSONPath=`.status.conditions[?(@.type=="Admitted")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Admitted")].reason`
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.steps[?(@.state=="Running")].name`
// +kubebuilder:printcolumn:name="Reboots",type=integer,JSONPath=`.status.reboots`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FirmwareJob struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec says what is done. Immutable except for priority and cancel.
	// +required
	Spec FirmwareJobSpec `json:"spec,omitzero"`
	// status is the progress and the result of the job.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status FirmwareJobStatus `json:"status,omitzero"`
}

// FirmwareJobList is a list of FirmwareJob.
//
// +kubebuilder:object:root=true
type FirmwareJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FirmwareJob `json:"items"`
}

// Ended reports whether the job is over: it completed or failed.
func (j *FirmwareJob) Ended() bool { return j.is(ConditionComplete) || j.Failed() }

// Failed reports whether the job failed.
func (j *FirmwareJob) Failed() bool { return j.is(ConditionFailed) }

// Held reports whether the job failed and keeps its node in maintenance until a person acts.
func (j *FirmwareJob) Held() bool { return j.Failed() && j.is(ConditionHeld) }

// MayBegin reports whether the job need not wait for its admission any more: it is admitted, or disturbs nobody.
func (j *FirmwareJob) MayBegin() bool { return j.Admitted() || j.Spec.Task.Type == JobTypeBackup }

// Admitted reports whether the job has a place in the budget of its RolloutPolicy.
func (j *FirmwareJob) Admitted() bool { return j.is(ConditionAdmitted) }

// HasPlace reports whether the job may disturb its node now: it was admitted, which it says for ever, and has neither ended nor given a
// node back that it held.
func (j *FirmwareJob) HasPlace() bool { return j.Admitted() && (!j.Ended() || j.Held()) }

// FailureReason is the reason of the condition Failed; empty where the job does not have that condition.
func (j *FirmwareJob) FailureReason() string {
	if c := meta.FindStatusCondition(j.Status.Conditions, ConditionFailed); c != nil {
		return c.Reason
	}
	return ""
}

// RetryInForce is the request to retry that is in force for the job, nil where it is not known.
func (j *FirmwareJob) RetryInForce() *string { return cmp.Or(j.Status.Request, j.Spec.Task.Request) }

// FailedOn reports whether a failed job failed because of the device: a step on it failed, or one of the whole node. Where
// the job blames devices, it failed because of them alone.
func (j *FirmwareJob) FailedOn(device string) bool {
	if j.FailureReason() == ReasonNodeGone {
		return false
	}
	blames := len(j.Status.Blamed) > 0
	onDevices := blames
	for _, s := range j.Status.Steps {
		if s.State != StepFailed {
			continue
		}
		if s.Device == device || s.Device == "" && !blames {
			return true
		}
		onDevices = true
	}
	return !onDevices || j.Blames(device)
}

// FailedOnSettings reports whether a failed job failed on the settings of the device, and not on its firmware.
func (j *FirmwareJob) FailedOnSettings(device string) bool {
	return j.FailureReason() == ReasonParameterInvalid || slices.ContainsFunc(j.Status.Steps, func(s JobStep) bool {
		return s.Name == "configure" && s.Device == device && s.State == StepFailed
	})
}

// Suspects are the image and the settings of an update with which the job may have done harm to the device: settings that went with an image and
// that it did not touch, because the device had them, are none.
func (j *FirmwareJob) Suspects(u *TaskDevice) []Digest {
	untouched := slices.ContainsFunc(j.Status.Steps, func(s JobStep) bool {
		return s.Name == "configure" && s.Device == u.Name && s.Part != PartRollback && s.State == StepSkipped
	})
	if u.Digest != "" && untouched {
		return []Digest{u.Digest}
	}
	return u.Contents()
}

// Blames reports whether the job says that the image of the device made the device or its node unhealthy.
func (j *FirmwareJob) Blames(device string) bool {
	return slices.ContainsFunc(j.Status.Blamed, func(b BlamedDevice) bool { return b.Device == device })
}

func (j *FirmwareJob) is(condition string) bool {
	return meta.IsStatusConditionTrue(j.Status.Conditions, condition)
}
