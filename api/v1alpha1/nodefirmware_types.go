package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeService says whether a node serves.
// +kubebuilder:validation:Enum=InService;OutOfService
type NodeService string

const (
	// NodeInService is a node that serves.
	NodeInService NodeService = "InService"
	// NodeOutOfService is a node that is cleaned for whoever gets it next, and serves nobody.
	NodeOutOfService NodeService = "OutOfService"
)

// NodeFirmwareSpec holds the pins and requests of a person for one node.
type NodeFirmwareSpec struct {
	// pins are rules for devices of this node alone, and take precedence over every template. Where several pins match one device,
	// those with serialNumbers or pciAddresses, which are for single devices, take precedence over those without; two of the same
	// rank are a conflict. At most 64. Written by the user and never by the product. The resulting assignment is in each
	// NodeDevice's spec.firmware with its origin.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Pins []FirmwareRule `json:"pins,omitempty"`
	// scanThreshold is the age at which the last scan counts as stale and the daemon scans again, as a duration such as
	// "5m"; it does not scan before, unless a job or a change of the hardware requests it. At least 1s. Absent: the
	// daemon's --scan-interval, 5m by default. Written by the user.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1s')",message="scanThreshold must be a duration of at least 1s, such as 5m"
	ScanThreshold Duration `json:"scanThreshold,omitempty"`
	// service is InService (default), or OutOfService to hand the node over: it is drained, gets the taint nodefirmware.io/out-of-service, and
	// the steps of the CleaningPolicy run that selects it; the condition Clean says how far that is. It may return to InService while
	// Clean is not False, and otherwise with a new requests.release, which leaves out what is missing. Written by the user.
	// +optional
	Service NodeService `json:"service,omitempty"`
	// requests ask for something to be done once on the node. Written by the user.
	// +optional
	Requests NodeRequests `json:"requests,omitzero"`
}

// NodeRequests are what a person asks of a node, or what the node has answered. Each is any text, such as "reseated". A text that
// is not empty and differs from the one in status.requests is a request, which is followed once. Removing it requests nothing.
type NodeRequests struct {
	// retry asks to try again what failed on the node: it clears each failure that was recorded while another text was in force.
	// At most 128 bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Retry string `json:"retry,omitempty"`
	// release asks to return the node, which a failed job holds, to service as it is, although the update did not succeed. A
	// text that was there when the hold began releases nothing. With it a node that is OutOfService and not clean may return to InService. At
	// most 128 bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Release string `json:"release,omitempty"`
	// scan asks to read the hardware now. Nothing is changed; if a device is being written, the scan waits for the end of that. At most 128
	// bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Scan string `json:"scan,omitempty"`
	// adopt says that the pins are for the machine that bears the node's name now, whichever one they were for. At most 128 bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Adopt string `json:"adopt,omitempty"`
}

// NodeFirmwareStatus is written by the node's daemon, from what it read on the machine. Only obsolete, pinnedMachine, requests.adopt
// and the conditions Current, Clean, PinsUnmatched and DaemonReady are written by the operator.
type NodeFirmwareStatus struct {
	// observedGeneration is the generation of the spec this status describes; -1 before the first reconciliation.
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Current and, once a health gate has judged the node, Healthy; and, while they are True, Reconciling,
	// Stalled, Held, Degraded and PinsUnmatched. DaemonReady is there once the daemon was silent, and Clean while the node is new or
	// OutOfService.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// machine is the identity in the DMI tables. Absent if the machine has none.
	// +optional
	Machine *Machine `json:"machine,omitempty"`
	// bootID is the kernel's boot id (/proc/sys/kernel/random/boot_id) at the last scan.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID,omitempty"`
	// lastScanTime is when the last complete scan ended. It is written with every other change of the status and after
	// every requested scan. While nothing changes it is refreshed by the first scan after an hour, or after spec.scanThreshold
	// where that is shorter, but at most once a minute.
	// +optional
	LastScanTime *metav1.Time `json:"lastScanTime,omitempty"`
	// biosVersion is the running version of the system firmware.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	BIOSVersion string `json:"biosVersion,omitempty"`
	// baseline stands for what the machine is: its vendor and model, and of each device the class, the model, the board, the running firmware and
	// the values of the settings that a template or pin declares. Nodes with one baseline are equal, whatever their serial numbers, addresses
	// and names are. As 16 hexadecimal digits of a hash. Absent while the last scan could not read all of that.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{16}$`
	Baseline string `json:"baseline,omitempty"`
	// requests are the last requests that the node has answered; one that is removed from the spec stays. scan is there when a scan that
	// began after the request is published. While a failed job holds the node, retry and release are those that were in force when the
	// hold began; otherwise they are answered at once. adopt is written by the operator.
	// +optional
	Requests NodeRequests `json:"requests,omitzero"`
	// pinnedMachine is the serial number of the machine that the pins are for: the one at which they were first seen. While the node's
	// machine reports another one, or none, its devices are Blocked with the reason HardwareChanged and keep the firmware that they
	// were to run. Another one takes its place for a new spec.requests.adopt. Absent where there are no pins, and for a machine that
	// reports no serial number. Written by the operator.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	PinnedMachine string `json:"pinnedMachine,omitempty"`
	// heldBy is the failed job that keeps the node in maintenance; absent when none does. A new spec.requests.retry tries again, and
	// a new spec.requests.release returns the node to service.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	HeldBy string `json:"heldBy,omitempty"`
	// currentStep is the step that runs now; absent when none does.
	// +optional
	CurrentStep *CurrentStep `json:"currentStep,omitempty"`
	// steps lists the enabled steps that a job on this node may run, in the order they run. At most 64.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Steps []EnabledStep `json:"steps,omitempty"`
	// lastError is the last failure on this node. It is removed when a later job completes.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	LastError string `json:"lastError,omitempty"`
	// maintenanceRequest is what the daemon asks of the operator where that drains nodes itself, with --maintenance=Drain.
	// Absent where it does not, and before the first job. Written by the daemon under a field manager of its own.
	// +optional
	MaintenanceRequest *MaintenanceRequest `json:"maintenanceRequest,omitempty"`
	// maintenance is the answer of the operator to maintenanceRequest, and written by the operator alone.
	// +optional
	Maintenance *MaintenanceAnswer `json:"maintenance,omitempty"`
	// obsolete lists the objects that the running firmware of the node's devices came from and that are not as they were: another
	// uid, another content, or gone. In order of kind, name and rule. While it has entries the object bears the label
	// nodefirmware.io/obsolete. At most 64; the condition Current counts all. Written by the operator.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Obsolete []ObsoleteReference `json:"obsolete,omitempty"`
}

// Machine identifies a machine by its DMI tables.
type Machine struct {
	// vendor is the DMI system vendor.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Vendor string `json:"vendor,omitempty"`
	// model is the DMI product name.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model,omitempty"`
	// serialNumber is the DMI product serial.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	SerialNumber string `json:"serialNumber,omitempty"`
}

// EnabledStep is a step jobs of this node run.
type EnabledStep struct {
	// name of the step.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// interface the step belongs to: "node" for the whole node, a device class, or a driver.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Interface string `json:"interface,omitempty"`
	// priority of the step; higher runs first.
	// +required
	// +kubebuilder:validation:Minimum=1
	Priority int32 `json:"priority"`
}

// CurrentStep is the step that runs on a node.
type CurrentStep struct {
	// job the step belongs to.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Job string `json:"job,omitempty"`
	// name of the step.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
}

// NodeFirmware is the firmware of the Node of the same name: pins, requests, what the machine is and what happens on it. What runs on
// its devices is in the NodeDevices, and what was done in the FirmwareJobs. The operator creates it when the Node appears and removes it an hour after the Node, unless it holds pins or a scanThreshold, or
// is OutOfService.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nfw,categories=firmware
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.spec.service) && oldSelf.spec.service == 'OutOfService') || has(self.spec.service) && self.spec.service == 'OutOfService' || !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == 'Clean' && c.status == 'False' && c.reason == 'Progressing')",message="steps run on the node; it may return to InService when they have ended: wait, or cancel their job",fieldPath=".spec.service"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.spec.service) && oldSelf.spec.service == 'OutOfService') || has(self.spec.service) && self.spec.service == 'OutOfService' || !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == 'Clean' && c.status == 'False') || has(self.spec.requests) && has(self.spec.requests.release) && size(self.spec.requests.release) > 0 && !(has(oldSelf.spec.requests) && has(oldSelf.spec.requests.release) && oldSelf.spec.requests.release == self.spec.requests.release)",message="the node is not clean; the condition Clean says why. To return it to InService as it is, set a new requests.release with it",fieldPath=".spec.service"
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.status.machine.model`
// +kubebuilder:printcolumn:name="BIOS",type=string,JSONPath=`.status.biosVersion`
// +kubebuilder:printcolumn:name="Baseline",type=string,JSONPath=`.status.baseline`
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.currentStep.name`
// +kubebuilder:printcolumn:name="Clean",type=string,JSONPath=`.status.conditions[?(@.type=="Clean")].reason`
// +kubebuilder:printcolumn:name="Waits For",type=string,JSONPath=`.status.conditions[?(@.type=="Clean")].message`,priority=1
// +kubebuilder:printcolumn:name="Held",type=string,JSONPath=`.status.heldBy`,priority=1
// +kubebuilder:printcolumn:name="Last Scan",type=date,JSONPath=`.status.lastScanTime`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeFirmware struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec holds the pins and requests for the node. Written by the user.
	// +optional
	// +kubebuilder:default={}
	Spec NodeFirmwareSpec `json:"spec,omitzero"`
	// status is what the daemon found on the machine, and what the operator found to be obsolete.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status NodeFirmwareStatus `json:"status,omitzero"`
}

// NodeFirmwareList is a list of NodeFirmware.
//
// +kubebuilder:object:root=true
type NodeFirmwareList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeFirmware `json:"items"`
}

// MaintenanceRequestType is what a daemon asks of the operator for its node.
// +kubebuilder:validation:Enum=Drain;Release
type MaintenanceRequestType string

// The types of a request for maintenance.
const (
	// MaintenanceDrain: cordon the node and evict its pods.
	MaintenanceDrain MaintenanceRequestType = "Drain"
	// MaintenanceRelease: return the node to service, unless somebody else cordoned it, and not before those are done who have it too.
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
	// MaintenanceDrained: the node is cordoned, and no pod was left that a drain takes away. It stays so after a release as long as somebody
	// else has the node, whom the message names.
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

// HealthResult is the result of a health gate.
// +kubebuilder:validation:Enum=Healthy;Unhealthy
type HealthResult string

const (
	// HealthResultHealthy marks a node that is as healthy as before the job.
	HealthResultHealthy HealthResult = "Healthy"
	// HealthResultUnhealthy marks a node that is less healthy than before the job.
	HealthResultUnhealthy HealthResult = "Unhealthy"
)

// HealthVerdict is what the health gate of a job found on the node. Only a health gate produces a verdict; a Ready pod
// or a successful login does not.
type HealthVerdict struct {
	// result is Healthy or Unhealthy.
	// +required
	Result HealthResult `json:"result,omitempty"`
	// bootID of the boot in which the node was checked.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID,omitempty"`
	// complaints lists what is worse than before. A Healthy node has one where it boots slowly since, and none otherwise. At most 32.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=512
	Complaints []string `json:"complaints,omitempty"`
}

// ReportsWithin is longer than a daemon that scans every five minutes goes without a report: at rest it makes one an hour.
const ReportsWithin = 75 * time.Minute

// ReportedAt is when the daemon last changed its report in a NodeFirmware, by the clock of the API server; nil for never.
func ReportedAt(o metav1.Object) *metav1.Time {
	var last *metav1.Time
	for _, m := range o.GetManagedFields() {
		if m.Manager == FieldOwnerDaemon && m.Time != nil && (last == nil || last.Before(m.Time)) {
			last = m.Time
		}
	}
	return last
}
